// The code after a migration, on the page "Migrating from async-http-client", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct MigratingFromAsyncHTTPClientPageTests {
    nonisolated struct User: Codable, Sendable { let name: String }
    private let stub = StubTransport.forMigrations()

    private func makeConfiguration() -> RequestManager.Configuration {
        .init(baseURL: URL(string: "http://example.com"), transport: .custom(stub), jitter: { 0 })
    }

    private func makeManager() -> RequestManager { RequestManager(configuration: makeConfiguration()) }

    private func makeDirectory() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    @Test func createTheClient() async throws {
        let manager = RequestManager()
        await manager.drain()  // only to wait for its requests
        #expect(manager.operations.isEmpty)
    }

    @Test func send() async throws {
        let manager = makeManager()
        let request = Request<User>.get("users/1")
            .deadline(.seconds(30))
            .maxBodyBytes(1 << 20)
        let user = try await manager.send(request).value
        #expect(user.name == "Ada")
    }

    @Test func readAStream() async throws {
        let manager = makeManager()
        var count = 0
        for try await chunk in manager.chunks(of: .get("image.iso")) {
            count += chunk.count
        }
        #expect(count == 4)
    }

    @Test func sendAStream() async throws {
        let manager = makeManager()
        let lines = AsyncStream<Data> { stream in
            stream.yield(Data("one".utf8))
            stream.finish()
        }
        let request = Request<Void>.post("log")
            .body(lines, contentType: "text/plain")
        try await manager.send(request)
        #expect(stub.calls.count == 1)
    }

    @Test func limit() {
        var configuration = RequestManager.Configuration()
        configuration.maxConcurrentPerHost = 8
        #expect(configuration.maxConcurrentPerHost == 8)
    }
}
