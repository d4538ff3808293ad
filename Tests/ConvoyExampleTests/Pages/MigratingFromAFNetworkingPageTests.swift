// The code after a migration, on the page "Migrating from AFNetworking", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct MigratingFromAFNetworkingPageTests {
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

    @Test func createTheManager() {
        let url = URL(string: "http://example.com")
        let manager = RequestManager(
            configuration: .init(
                baseURL: url, headerFields: ["Accept-Language": "en"]))
        #expect(manager.operations.isEmpty)
    }

    @Test func sendWithCallbacks() async throws {
        let manager = makeManager()
        let show: (User) -> Void = { #expect($0.name == "Ada") }
        let fail: (String) -> Void = { Issue.record("\($0)") }
        let operation = manager.enqueue(Request<User>.get("users/1"))
        operation.onFinish(on: .main) { result in
            switch result {
            case .success(let response): show(response.value)
            case .failure(let error): fail(error.message)
            }
        }
        await manager.drain()
    }

    @Test func depend() async throws {
        let manager = makeManager()
        let first = manager.operation(Request<User>.get("me"))
        let second = manager.operation(after: first) { user in
            Request<Data>.get("avatars").query("name", user.value.name)
        }
        manager.enqueue(first, second)
        let avatar = try await second.response().value
        #expect(avatar.isEmpty)
    }

    @Test func sendABatch() async throws {
        let manager = makeManager()
        let paths = ["a", "b"]
        let batch = manager.batch(paths.map { Request<Data>.get($0) })
        for await progress in batch.progress {
            print(progress.finishedCount, "of", paths.count)
        }
        let results = await batch.results
        #expect(results.count == 2)
    }

    @Test func waitForANetwork() {
        var configuration = RequestManager.Configuration()
        configuration.waitsForConnectivity = true
        #expect(configuration.waitsForConnectivity)
    }

    @Test func resume() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "image.iso")
        let download = manager.download("image.iso", to: file)
        download.suspend()
        download.resume()
        try await download.response()
        #expect(FileManager.default.fileExists(atPath: file.path))
    }
}
