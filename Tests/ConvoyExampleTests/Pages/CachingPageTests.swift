// The code of the page "Caching HTTP responses", against a server.
import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

@Suite struct CachingPageTests {
    @Test func aCacheInMemory() async {
        var configuration = RequestManager.Configuration()
        configuration.cache = HTTPCache.memory(capacity: 64 << 20)
        let manager = RequestManager(configuration: configuration)
        await manager.drain()
    }

    @Test func aFreshResponseAnswersTheNextRequest() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200, headerFields: [("Cache-Control", "max-age=60"), ("ETag", "\"1\"")]) }
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: directory) }
        let url = server.url("/report")
        let cache = HTTPCache(directory: directory, capacity: 500 << 20)
        var configuration = RequestManager.Configuration()
        configuration.cache = cache
        let manager = RequestManager(configuration: configuration)

        let request = Request<Data>.get(url)
        let first = try await manager.send(request)
        let second = try await manager.send(request)
        print(second.metrics?.cache?.isHit == true)  // if the server allows it
        #expect(first.metrics?.cache?.isHit == false)
        #expect(second.metrics?.cache?.isHit == true)
        #expect(server.requestCount == 1)

        let checked = try await manager.send(request.cachePolicy(.revalidate))
        let offline = try await manager.send(request.cachePolicy(.onlyCache))
        let recent = try await manager.send(request.maxCacheAge(.seconds(60)))
        let signed = try await manager.send(request.cacheKey("report-7"))
        #expect([checked, offline, recent, signed].map(\.statusCode) == [200, 200, 200, 200])
        #expect(server.requestCount == 3)

        await manager.prefetch([request]).finished()
        let fields: HeaderFields = ["Cache-Control": "max-age=60"]
        try cache.store(Data("{}".utf8), headerFields: fields, for: .get(url))
        #expect(server.requestCount == 4)
        #expect(try await manager.send(request).value == Data("{}".utf8))
        print(try cache.explanation(of: request))
        await manager.drain()

        let clock = VirtualClock()
        let stub = StubTransport(clock: clock)
        let reply = StubReply.json("1")
            .cacheable(maxAge: .seconds(60), etag: "v")
        stub.route("/a", replies: reply)
        #expect(stub.calls.isEmpty)
    }
}
