import Convoy
import ConvoyTesting
import Foundation
import Testing

/// The code of the README and of the documentation, as it stands there, against a server.
@Suite struct ReadmeTests {
    struct Token: Codable, Sendable { var id: String }
    struct User: Codable, Sendable, Equatable { var id: String }
    struct Order: Codable, Sendable, Equatable { var number: Int }

    private func makeServer() throws -> TestServer {
        let server = try TestServer()
        server.route("/login") { _ in .json(#"{"id": "secret"}"#) }
        server.route("/me") { request in
            request.value(of: "Authorization") == "Bearer secret" ? .json(#"{"id": "ada"}"#) : .status(401)
        }
        server.route("/orders") { request in request.query == "user=ada" ? .json(#"[{"number": 1}]"#) : .status(404) }
        server.respond { .status(200, body: $0.path) }
        return server
    }

    @Test func theExampleAndTheChain() async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let (loginURL, meURL, ordersURL) = (server.url("/login"), server.url("/me"), server.url("/orders"))
        let credentials = ["name": "ada"]
        let shown = EventLog<User?>()
        let queue = DispatchQueue(label: "show")

        let manager = RequestManager(
            configuration: .init(maxConcurrentOperationCount: 16, maxConcurrentPerHost: 6))
        let token = try await manager.send(Request<Token>.post(loginURL, json: credentials)).value
        #expect(token.id == "secret")

        let login = manager.operation(Request<Token>.post(loginURL, json: credentials))
        let me = manager.operation(after: login) { Request<User>.get(meURL).bearer($0.value.id) }
        me.onFinish(on: .queue(queue)) { result in shown.record(try? result.get().value) }
        manager.enqueue(login, me)

        let list = manager.operation(after: me) { Request<[Order]>.get(ordersURL).query("user", $0.value.id) }
        manager.enqueue(list)
        #expect(!manager.why(list).isEmpty)
        #expect(try await list.response().value == [Order(number: 1)])
        #expect(await shown.wait() == [User(id: "ada")])
    }

    @Test func theBatch() async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let manager = RequestManager()
        let urls = (0..<20).map { server.url("/\($0)") }
        let drawn = EventLog<Double>()

        let batch = manager.batch(urls.map { Request<Data>.get($0) })
        for await progress in batch.progress { drawn.record(progress.fractionCompleted) }
        let bodies = try await batch.results.map { String(decoding: try $0.get().value, as: UTF8.self) }
        #expect(bodies == (0..<20).map { "/\($0)" })
        #expect(drawn.events.last == 1)
    }

    @Test func theDownload() async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.enqueue(.generated(byteCount: 100_000).stalling(afterBodyBytes: 50_000, until: gate))
        server.enqueue(.generated(byteCount: 100_000))
        let manager = RequestManager()
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }

        let download = manager.download(.get(server.url("/big")), to: file)
        download.onProgress { _ = $0.fractionCompleted }
        try await gate.reached()
        download.cancel()
        await manager.drain()
        #expect(!FileManager.default.fileExists(atPath: file.path))

        _ = try await manager.download(.get(server.url("/big")), to: file).response()
        #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<100_000))
    }

    @Test func theBadDay() async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let (apiURL, reportURL) = (server.url(), server.url("/report"))
        let wasRefused = EventLog<Bool>()
        server.route("/report") { request in
            guard request.value(of: "Authorization") == "Bearer fresh" else { return .status(401) }
            wasRefused.record(true)
            return wasRefused.count == 1 ? .redirect(to: "/moved") : .status(503)
        }
        let freshToken: @Sendable () async throws -> String = { "fresh" }

        var configuration = RequestManager.Configuration()
        configuration.retries = .standard
        configuration.interceptors = [BearerAuthenticator(origins: [apiURL]) { _ in try await freshToken() }]
        configuration.cookies = CookieJar()
        let steady = RequestManager(configuration: configuration)
        let report = try await steady.send(Request<Data>.get(reportURL).deadline(.seconds(30)))
        #expect(report.attempts.map(\.statusCode) == [302, 200])
    }

    @Test func anythingInAndOut() async throws {
        struct Receipt: Decodable, Sendable { let id: Int }
        struct Refusal: Error, Decodable { let reason: String }
        let server = try makeServer()
        defer { server.shutDown() }
        let (uploadURL, feedURL, manager) = (server.url("/upload"), server.url("/feed"), RequestManager())
        server.route("/upload") { request in
            .status(request.bodyText.contains("filename=\"photo.png\"") ? 422 : 500, body: "{\"reason\": \"blurred\"}")
        }
        server.route("/feed") { _ in
            .status(200, headerFields: [("Content-Type", "text/event-stream")], body: "data: a\n\ndata: b\n\n")
        }
        let directory = try TemporaryDirectory()
        let photo = directory.url.appending(path: "photo.png")
        try Data("image".utf8).write(to: photo)

        var form = MultipartForm()
        form.append(file: photo, name: "photo")
        let upload = Request<Receipt>.post(uploadURL).query(["id": [1, 2]]).multipart(form).failing(
            with: Refusal.self)
        #expect(try upload.cURLCommand().hasPrefix("curl"))
        #expect(try await manager.send(upload).value.failure is Refusal)
        var data: [String] = []
        for try await event in manager.events(of: .get(feedURL)) { data.append(event.data) }
        #expect(data == ["a", "b"])
    }

    @Test func chunksOneByOne() async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        server.enqueue(.generated(byteCount: 300_000))
        var body = Data()
        for try await chunk in RequestManager().chunks(of: .get(server.url("/big"))) { body += chunk }
        #expect(body == Reply.pattern(range: 0..<300_000))
    }
}
