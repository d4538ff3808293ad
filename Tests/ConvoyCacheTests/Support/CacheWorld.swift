// A server, a clock and a manager with a cache.
import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation

/// The place where a test's cache stores responses.
enum Place: CaseIterable, Sendable {
    case memory
    case disk
}

/// A server, a clock and a manager with a cache.
final class CacheWorld: Sendable {
    let server: TestServer
    let clock = VirtualClock()
    let directory: TemporaryDirectory
    let cache: HTTPCache
    let manager: RequestManager
    /// The requests that the server received, in order.
    let sent = EventLog<RecordedRequest>()

    init(
        _ place: Place = .memory, capacity: Int64 = 16 << 20, sharing: CacheSharing = .private,
        _ change: (inout RequestManager.Configuration) -> Void = { _ in },
        reply: @escaping @Sendable (RecordedRequest, Int) -> Reply
    ) throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        var caching = HTTPCache.Configuration()
        caching.sharing = sharing
        cache =
            place == .memory
            ? .memory(capacity: capacity, configuration: caching)
            : HTTPCache(directory: directory.file("cache"), capacity: capacity, configuration: caching)
        var configuration = RequestManager.Configuration(clock: clock)
        configuration.cache = cache
        change(&configuration)
        manager = RequestManager(configuration: configuration)
        server.respond { [sent] request in
            sent.record(request)
            return reply(request, sent.count)
        }
    }

    deinit { server.shutDown() }

    func get(
        _ target: String = "/a", _ change: (Request<Data>) -> Request<Data> = { $0 }
    ) async throws -> Response<Data> {
        try await manager.send(change(Request<Data>.get(server.url(target))))
    }

    func text(_ target: String = "/a", _ change: (Request<Data>) -> Request<Data> = { $0 }) async throws -> String {
        String(decoding: try await get(target, change).value, as: UTF8.self)
    }

    /// All bytes in the directory of the cache.
    func storedBytes() throws -> Data {
        let root = directory.file("cache")
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.path)
        var all = Data()
        for name in names.sorted() {
            if let data = try? Data(contentsOf: root.appending(path: name)) { all += data }
        }
        return all
    }
}

extension Data {
    /// Whether the data contains the UTF-8 bytes of a text.
    func contains(_ text: String) -> Bool { range(of: Data(text.utf8)) != nil }
}
