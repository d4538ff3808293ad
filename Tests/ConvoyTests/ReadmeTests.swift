import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Runs the README's code against a server.
@Suite struct ReadmeTests {
    struct Token: Codable, Sendable { var token: String }
    struct User: Codable, Sendable, Equatable { var id: String }

    private let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("/login") { _ in .json(#"{"token": "secret"}"#) }
        server.route("/me") { request in
            request.value(of: "Authorization") == "Bearer secret" ? .json(#"{"id": "ada"}"#) : .status(401)
        }
        server.respond { .status(200, body: $0.path) }
    }

    /// The Swift code blocks of the README.
    ///
    /// Blocks with an import are programs; other blocks are fragments.
    private static func blocks() -> [Substring] {
        LibrarySources.text("README.md").split(separator: "```swift\n").dropFirst().map {
            $0.split(separator: "```")[0]
        }
    }

    /// The target `ReadmeProgram` is built with the tests, so the program of the README compiles.
    @Test func theProgramIsATarget() throws {
        let programs = Self.blocks().filter { $0.hasPrefix("import ") }
        #expect(programs.map(String.init) == [LibrarySources.text("Tests/ReadmeProgram/main.swift")])
    }

    /// Every other statement of the README is in one of the tests below, apart from its layout.
    @Test func theREADMEHasNoOtherCode() throws {
        let tests = try String(contentsOf: URL(fileURLWithPath: #filePath), encoding: .utf8)
            .filter { !$0.isWhitespace }
        let blocks = Self.blocks()
        #expect(blocks.count == 4)
        let parts = blocks.filter { !$0.hasPrefix("import ") }
        for line in parts.joined(separator: "\n").split(separator: "\n") {
            let code = (line.split(separator: "  //").first ?? "").filter { !$0.isWhitespace }
            #expect(tests.contains(code), "\(line)")
        }
    }

    /// Every path in a link of the README exists.
    @Test func itsLinksLeadSomewhere() throws {
        let links = LibrarySources.text("README.md").split(separator: "](").dropFirst().compactMap {
            $0.split(separator: ")").first?.split(separator: "#").first.map(String.init)
        }
        #expect(links.count > 10)
        for link in links {
            let isThere = FileManager.default.fileExists(atPath: LibrarySources.root.appending(path: link).path)
            #expect(isThere, "\(link)")
        }
    }

    @Test func theREADMEIsShort() throws {
        #expect(LibrarySources.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 160)
    }

    @Test func theChain() async throws {
        let (loginURL, meURL) = (server.url("/login"), server.url("/me"))
        let (credentials, gate) = (["name": "ada"], Gate())
        server.enqueue(.json(#"{"token": "secret"}"#).stalling(until: gate))
        let (shown, printed) = (EventLog<User?>(), EventLog<String>())
        let show: @Sendable (RequestOperation<User>.Result) -> Void = { shown.record(try? $0.get().value) }
        let print: (String) -> Void = {
            printed.record($0)
            gate.open()
        }
        let manager = RequestManager()

        let login = manager.operation(Request<Token>.post(loginURL, json: credentials))
        let me = manager.operation(after: login) { Request<User>.get(meURL).bearer($0.value.token) }
        me.onFinish(on: .main) { result in show(result) }
        manager.enqueue(login, me)
        try await gate.reached()
        print(manager.why(me))
        let user = try await me.response().value
        #expect(user == User(id: "ada"))
        #expect(printed.events == ["waits for: POST \(loginURL) (executing)"])
        #expect(await shown.wait() == [User(id: "ada")])
    }

    @Test func theBatch() async throws {
        let stub = StubTransport()
        stub.route("/tiles/*") { .status($0.url.lastPathComponent == "7" ? 404 : 200) }
        let manager = RequestManager(configuration: .init(transport: .custom(stub)))

        let tiles = manager.batch(count: 10_000) { Request<Data>.get("https://example.com/tiles/\($0)") }
        let failed = await tiles.results.filter { (try? $0.get()) == nil }.count
        #expect(failed == 1)
    }

    @Test func theDownload() async throws {
        let gate = Gate()
        let reply = Reply.resource(generatedByteCount: 100_000, etag: "\"v1\"")
        server.enqueue(reply.stalling(afterBodyBytes: 50_000, until: gate))
        server.enqueue(reply)
        let digest = Reply.pattern(range: 0..<100_000).sha256
        let manager = RequestManager()
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-\(UUID().uuidString)")
        let bigFile = server.url("/big")
        defer { try? FileManager.default.removeItem(at: file) }
        do {
            let download = manager.download(.get(bigFile), to: file)
            try await gate.reached()
            await look { download.progress.download.completedBytes == 50_000 }
            download.cancel()
            await manager.drain()
            #expect(!FileManager.default.fileExists(atPath: file.path))
        }

        let download = manager.download(.get(bigFile), to: file, verifying: .sha256(digest))
        download.onProgress { print($0.download.fractionCompleted ?? 0) }
        try await download.response()
        _ = try await server.takeRequest()
        #expect(try await server.takeRequest().value(of: "Range") == "bytes=50000-")
        #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<100_000))
    }

    // The tests below run the fragments of the README over a real server.

    @Test func theBadDay() async throws {
        let (apiURL, reportURL) = (server.url(), server.url("/report"))
        let wasRefused = EventLog<Bool>()
        server.route("/report") { request in
            guard request.value(of: "Authorization") == "Bearer fresh" else { return .status(401) }
            wasRefused.record(true)
            return wasRefused.count == 1 ? .redirect(to: "/moved") : .status(503)
        }
        let freshToken: @Sendable () async throws -> String = { "fresh" }

        var configuration = RequestManager.Configuration(headerFields: ["Accept-Language": "en"])
        configuration.retries = .standard
        configuration.interceptors = [try BearerAuthenticator(origins: [apiURL]) { _ in try await freshToken() }]
        configuration.cookies = CookieJar()
        let steady = RequestManager(configuration: configuration)
        let report = try await steady.send(Request<Data>.get(reportURL).deadline(.seconds(30)))
        print(report.attempts)
        #expect(report.attempts.map(\.statusCode) == [302, 200])
        #expect("\(report.attempts)".contains("(302 after "))
        #expect("\(report.attempts)".contains("), then a redirect to \(server.url("/moved")), 2: GET "))
    }

    @Test func anythingInAndOut() async throws {
        struct Receipt: Decodable, Sendable { let id: Int }
        struct Refusal: Error, Decodable { let reason: String }
        let (uploadURL, feedURL, manager) = (server.url("/upload"), server.url("/feed"), RequestManager())
        let (id, name, data) = (7, "ada", EventLog<String>())
        let print: (String) -> Void = { data.record($0) }
        server.route("/upload") { request in
            .status(request.bodyText.contains("filename=\"photo.png\"") ? 422 : 500, body: "{\"reason\": \"blurred\"}")
        }
        let connections = EventLog<Void>()
        server.route("/feed") { _ in
            connections.record(())
            guard connections.count == 1 else { return .status(204) }
            let events = "retry: 10\ndata: a\n\ndata: b\n\n"
            return .status(200, headerFields: [("Content-Type", "text/event-stream")], body: events)
        }
        let directory = try TemporaryDirectory()
        let photo = directory.url.appending(path: "photo.png")
        try Data("image".utf8).write(to: photo)

        var form = MultipartForm()
        form.append(file: photo, name: "photo")
        let upload = Request<Receipt>.post(uploadURL).query(["user": [id, name]]).multipart(form).failing(
            with: Refusal.self)
        print(try upload.cURLCommand())
        do { try await manager.send(upload) } catch { print(error.refusal(as: Refusal.self)?.reason ?? error.message) }
        for try await event in manager.events(of: .get(feedURL)) { print(event.data) }
        #expect(data.events.first?.contains("cat '\(photo.path)'") == true)
        #expect(data.events.dropFirst() == ["blurred", "a", "b"])
    }

    @Test func chunksOneByOne() async throws {
        server.enqueue(.generated(byteCount: 300_000))
        var body = Data()
        for try await chunk in RequestManager().chunks(of: .get(server.url("/big"))) { body += chunk }
        #expect(body == Reply.pattern(range: 0..<300_000))
    }
}

/// Hides the README's output from that of the tests.
private func print(_ items: Any...) {}
