// The code after a migration, on the page "Migrating from Alamofire", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct MigratingFromAlamofirePageTests {
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

    @Test func createTheClient() {
        let apiURL = URL(string: "http://example.com")
        let manager = RequestManager(
            configuration: .init(baseURL: apiURL, retries: .standard))
        #expect(manager.operations.isEmpty)
    }

    @Test func decodeAResponse() async throws {
        let manager = makeManager()
        let user = try await manager.send(Request<User>.get("users/1")).value
        #expect(user.name == "Ada")
    }

    @Test func useACallback() async throws {
        let manager = makeManager()
        let shown = Results<RequestOperation<User>.Result>()
        let show: (RequestOperation<User>.Result) -> Void = { shown.all.append($0) }
        manager.enqueue(Request<User>.get("users/1"))
            .onFinish(on: .main) { result in show(result) }
        await manager.drain()
        #expect(shown.all.count == 1)
    }

    @Test func refreshAToken() async throws {
        let apiURL = try #require(URL(string: "http://example.com"))
        let freshToken: @Sendable () async throws -> String = { "token" }
        var configuration = RequestManager.Configuration()
        configuration.interceptors = [
            try BearerAuthenticator(origins: [apiURL]) { _ in
                try await freshToken()
            }
        ]
        #expect(configuration.interceptors.count == 1)
    }

    @Test func uploadAForm() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "image.iso")
        let photo = file
        try Data("photo".utf8).write(to: photo)
        var form = MultipartForm()
        form.append(file: photo, name: "photo")
        try await manager.send(Request<Void>.post("photos").multipart(form))
        #expect(stub.calls.count == 1)
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
}
