import Convoy
import ConvoyCache
import Foundation
import Testing

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
            reply(request, sent.number(request))
        }
    }

    deinit { server.shutDown() }

    func request(_ target: String = "/a") -> Request<Data> { .get(server.url(target)) }

    func get(
        _ target: String = "/a", _ change: (Request<Data>) -> Request<Data> = { $0 }
    ) async throws -> Response<Data> {
        try await manager.send(change(request(target)))
    }

    func text(_ target: String = "/a", _ change: (Request<Data>) -> Request<Data> = { $0 }) async throws -> String {
        try await get(target, change).text
    }

    func failure(_ target: String = "/a", _ change: (Request<Data>) -> Request<Data> = { $0 }) async -> RequestError? {
        await #expect(throws: RequestError.self) { try await get(target, change) }
    }

    /// All bytes in the directory of the cache.
    func storedBytes() throws -> Data {
        let root = directory.file("cache")
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.path)
        return names.reduce(into: Data()) { $0 += (try? Data(contentsOf: root.appending(path: $1))) ?? Data() }
    }
}

extension Response {
    var isHit: Bool { metrics?.cache?.isHit == true }
}

extension Response<Data> {
    var text: String { String(decoding: value, as: UTF8.self) }
}

extension Reply {
    /// A response with status 200 that is fresh for a minute.
    static func fresh(
        _ body: String = "body", _ fields: (String, String)..., control: String = "max-age=60"
    ) -> Reply {
        .status(200, headerFields: [("Cache-Control", control)] + fields, body: body)
    }

    /// A confirmation of a conditional request by `ETag`; otherwise a response with status 200.
    static func confirming(
        _ request: RecordedRequest, _ fields: [(String, String)], _ body: String = "body",
        by confirmation: [(String, String)]? = nil
    ) -> Reply {
        request.value(of: "If-None-Match") == nil
            ? .status(200, headerFields: fields, body: body) : .status(304, headerFields: confirmation ?? fields)
    }

    /// The first response ends after three of ten bytes; a request for the other seven gets them, and `end`.
    static func cut(
        _ request: RecordedRequest, _ number: Int, _ whole: [(String, String)], rest: [(String, String)],
        end: String = ""
    ) -> Reply {
        if request.value(of: "Range") == "bytes=3-" {
            let range = ("Content-Range", "bytes 3-\(9 + end.count)/\(10 + end.count)")
            return .status(206, headerFields: rest + [("ETag", "\"v\""), range], body: "3456789" + end)
        }
        let body = "0123456789" + (number == 1 ? "" : end)
        let reply = Reply.status(200, headerFields: whole + [("ETag", "\"v\"")], body: body)
        return number == 1 ? reply.performing(.close, at: .responseBody(afterBytes: 3)) : reply
    }
}

extension Data {
    /// Whether the data contains the UTF-8 bytes of a text.
    func contains(_ text: String) -> Bool { range(of: Data(text.utf8)) != nil }
}
