// The code after a migration, on the page "Migrating from URLSession", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct MigratingFromURLSessionPageTests {
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

    @Test func send() async throws {
        let manager = makeManager()
        let user = try await manager.send(Request<User>.get("users/1")).value
        #expect(user.name == "Ada")
    }

    @Test func keepAURLRequest() async throws {
        let manager = makeManager()
        let urlRequest = URLRequest(url: try #require(URL(string: "http://example.com/a")))
        let data = try await manager.send(Request<Data>(urlRequest)).value
        #expect(data.isEmpty)
    }

    @Test func retry() async throws {
        let manager = makeManager()
        let request = Request<Data>.get("report").retries(.standard)
        let report = try await manager.send(request)
        print(report.attempts.count)
        #expect(report.attempts.count == 2)
    }

    @Test func limit() async throws {
        var configuration = makeConfiguration()
        let urls = ["http://example.com/a", "http://example.com/b"]
        configuration.maxConcurrentOperationCount = 8
        let manager = RequestManager(configuration: configuration)
        let batch = manager.batch(urls.map { Request<Data>.get($0) })
        let results = await batch.results
        #expect(results.count == 2)
    }

    @Test func resumeADownload() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "image.iso")
        let download = manager.download("image.iso", to: file)
        download.cancel()
        await manager.drain()
        // Later, also after a crash:
        let again = manager.download("image.iso", to: file)
        try await again.response()
        #expect(FileManager.default.fileExists(atPath: file.path))
    }

    @Test func followAnUpload() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "image.iso")
        try Data("photo".utf8).write(to: file)
        let show: (Double) -> Void = { #expect($0 <= 1) }
        let upload = manager.enqueue(
            Request<Void>.put("photos/1").body(fromFile: file))
        upload.onProgress(on: .main) { show($0.upload.fractionCompleted ?? 0) }
        try await upload.response()
        #expect(stub.calls.count == 1)
    }
}
