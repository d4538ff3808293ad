// The code of the page "Cookbook", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Synchronization
import Testing

/// The links that a crawl has seen.
nonisolated private final class SeenLinks: Sendable {
    private let links = Mutex<Set<String>>([])

    @Sendable func insert(_ link: String) -> Bool { links.withLock { $0.insert(link).inserted } }
}

@Suite struct CookbookPageTests {
    nonisolated struct Token: Decodable, Sendable { let token: String }
    nonisolated struct User: Codable, Sendable { let name: String }
    nonisolated struct Refusal: Error, Decodable { let reason: String }
    private let stub = StubTransport()

    init() {
        stub.route("/**", replies: .status(200))
        stub.route("/users", replies: .json(#"[{"name": "Ada"}]"#))
        stub.route(.post, "/users", replies: .json(#"{"name": "Ada"}"#))
        stub.route("/users/*", replies: .json(#"{"name": "Ada"}"#))
        stub.route(.head, "/users/*", replies: .status(404))
        stub.route("/me", replies: .json(#"{"name": "Ada"}"#))
        stub.route("/login", replies: .json(#"{"token": "t"}"#))
        stub.route("/old", replies: .redirect(to: "/new"))
        stub.route("/report", replies: .json(#"{"reason": "no paper"}"#, statusCode: 409))
        stub.route("/orders", replies: .status(503), .status(201))
    }

    private func makeManager() -> RequestManager {
        RequestManager(
            configuration: .init(
                baseURL: URL(string: "http://example.com"), transport: .custom(stub), jitter: { 0 }))
    }

    private func makeDirectory() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    @Test func sendAndDecodeJSON() async throws {
        let manager = makeManager()
        let request = Request<User>.post("users", json: ["name": "Ada"])
        let user = try await manager.send(request).value
        #expect(user.name == "Ada")
    }

    @Test func decodeSnakeCase() {
        var configuration = RequestManager.Configuration()
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        configuration.decoder = decoder
        #expect(configuration.decoder === decoder)
    }

    @Test func addQueryParameters() async throws {
        let manager = makeManager()
        let found = Request<[User]>.get("users")
            .query(["name": "Ada", "page": 2, "tags": ["a", "b"]])
        #expect(try await manager.send(found).value.count == 1)
        #expect(stub.calls[0].url.query()?.contains("page=2") == true)
    }

    @Test func sendAField() {
        var configuration = RequestManager.Configuration()
        configuration.headerFields["Accept-Language"] = "en"
        #expect(configuration.headerFields["Accept-Language"] == "en")
    }

    @Test func sendAnAPIKey() {
        let key = "k"
        let request = Request<User>.get("users/1")
            .secretHeader("X-Api-Key", key)
        #expect(!request.description.contains("X-Api-Key: k"))
    }

    @Test func readText() async throws {
        let manager = makeManager()
        let data = try await manager.send(Request<Data>.get("users/1")).value
        let text = String(decoding: data, as: UTF8.self)
        #expect(text.contains("Ada"))
    }

    @Test func checkExistence() async throws {
        let manager = makeManager()
        let head = Request<Void>.head("users/7")
            .acceptableStatusCodes(.codes([200, 404]))
        let exists = try await manager.send(head).statusCode == 200
        #expect(!exists)
    }

    @Test func refuseRedirects() async throws {
        let manager = makeManager()
        let request = Request<Data>.get("old")
            .redirects(.never)
            .acceptableStatusCodes(.range(200...399))
        let response = try await manager.send(request)
        print(response.head.headerFields["Location"] ?? "")
        #expect(response.statusCode == 302)
    }

    @Test func runTwoInParallel() async throws {
        let manager = makeManager()
        async let one = manager.send(Request<User>.get("users/1"))
        async let two = manager.send(Request<User>.get("users/2"))
        let names = try await [one.value.name, two.value.name]
        #expect(names == ["Ada", "Ada"])
    }

    @Test func sendAThousand() async throws {
        let manager = makeManager()
        let batch = manager.batch(count: 1_000) { index in
            Request<Data>.get("tiles/\(index)")
        }
        let failed = await batch.results.filter { (try? $0.get()) == nil }
        #expect(failed.isEmpty)
    }

    @Test func useAResponse() async throws {
        let manager = makeManager()
        let login = manager.operation(Request<Token>.post("login"))
        let me = manager.operation(after: login) { token in
            Request<User>.get("me").bearer(token.value.token)
        }
        manager.enqueue(login, me)
        let user = try await me.response().value
        #expect(user.name == "Ada")
    }

    @Test func readPages() async throws {
        let manager = makeManager()
        var all: [User] = []
        for try await page in manager.pages(Request<[User]>.get("users")) {
            all += page.value
        }
        #expect(all.count == 1)
    }

    @Test func coalesce() async throws {
        let manager = makeManager()
        let image = Request<Data>.get("tiles/1").coalesced()
        async let first = manager.send(image)
        async let second = manager.send(image)
        let sizes = try await [first.value.count, second.value.count]
        #expect(sizes == [0, 0])
    }

    @Test func runOneAtATime() async throws {
        let manager = makeManager()
        let save = Request<Void>.put("draft").mutuallyExclusive("draft")
        try await manager.send(save)
        #expect(stub.calls.count == 1)
    }

    @Test func prioritize() async throws {
        let manager = makeManager()
        let request = Request<Data>.get("tiles/1").priority(.high)
        let operation = manager.enqueue(request)
        operation.queuePriority = .veryHigh
        _ = try await operation.response()
    }

    @Test func cancelAScreen() async throws {
        let manager = makeManager()
        let users = Request<[User]>.get("users").tagged("search")
        let search = manager.enqueue(users)
        manager.cancelAll(tagged: "search")
        await manager.drain()
        #expect(search.isFinished)
    }

    @Test func giveUp() {
        let request = Request<Data>.get("report").deadline(.seconds(10))
        #expect(request.defect == nil)
    }

    @Test func retry() async throws {
        let manager = makeManager()
        let order = Request<Void>.post("orders")
            .idempotencyKey("order-17")
            .retries(.standard)
        try await manager.send(order)
        #expect(stub.calls.count == 2)
    }

    @Test func showTheReason() async throws {
        let manager = makeManager()
        let request = Request<Data>.get("report").failing(with: Refusal.self)
        do {
            _ = try await manager.send(request)
        } catch {
            print(error.refusal(as: Refusal.self)?.reason ?? error.message)
        }
        #expect(stub.calls.count == 1)
    }

    @Test func limitARate() {
        var configuration = RequestManager.Configuration()
        configuration.requestRatePerHost = .perSecond(5)
        #expect(configuration.requestRatePerHost == .perSecond(5))
    }

    @Test func limitAHost() {
        var configuration = RequestManager.Configuration()
        configuration.maxConcurrentPerHost = 2
        #expect(configuration.maxConcurrentPerHost == 2)
    }

    @Test func waitForANetwork() {
        var configuration = RequestManager.Configuration()
        configuration.waitsForConnectivity = true
        #expect(configuration.waitsForConnectivity)
    }

    @Test func stopASlowTransfer() {
        let request = Request<Data>.get("report")
            .minimumSpeed(bytesPerSecond: 1_000, over: .seconds(30))
        #expect(request.defect == nil)
    }

    @Test func downloadIntoADirectory() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let request = Request<Data>.get("report.pdf").saved(in: directory)
        let file = try await manager.send(request).value
        #expect(file.lastPathComponent == "report.pdf")
    }

    @Test func downloadMissing() async throws {
        let manager = makeManager()
        let directory = try makeDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "report.pdf")
        let download = manager.download("report.pdf", to: file, existing: .skip)
        try await download.response()
        #expect(FileManager.default.fileExists(atPath: file.path))
    }

    @Test func verifyAChecksum() {
        let file = FileManager.default.temporaryDirectory.appending(path: "report.pdf")
        let hexadecimal = String(repeating: "0", count: 64)
        let request = Request<Data>.get("report.pdf")
            .saved(to: file, verifying: .sha256(hexadecimal))
        #expect(request.defect == nil)
    }

    @Test func limitBandwidth() {
        var configuration = RequestManager.Configuration()
        configuration.maxBytesPerSecond = 1 << 20
        #expect(configuration.maxBytesPerSecond == 1 << 20)
    }

    @Test func compressABody() {
        let request = Request<Void>.post("log").body("text").gzipped()
        #expect(request.headerFields["Content-Encoding"] == "gzip")
    }

    @Test func printACurlCommand() throws {
        let request = Request<Data>.get("http://example.com/a")
        print(try request.cURLCommand())
        #expect(try request.cURLCommand().hasPrefix("curl"))
    }

    @Test func logRequests() {
        var configuration = RequestManager.Configuration()
        configuration.monitors = [LogMonitor(minimumLevel: .debug)]
        #expect(configuration.monitors.count == 1)
        let monitor = LogMonitor(minimumLevel: .info) { level, line in
            print(level, line)
        }
        configuration.monitors.append(monitor)
    }

    @Test func findOutWhy() {
        let manager = makeManager()
        let operation = manager.operation(Request<Data>.get("tiles/1"))
        print(manager.why(operation))
        #expect(!manager.why(operation).isEmpty)
    }

    @Test func followLinks() async throws {
        let manager = makeManager()
        stub.route("/links", replies: .json(#"["links/a", "links/b"]"#))
        stub.route("/links/*", replies: .json(#"["last"]"#))
        stub.route("/last", replies: .json("[]"))
        let seen = SeenLinks()
        let isNew = seen.insert
        let crawl = manager.operation(named: "crawl") { (group: OperationGroup) in
            let start = try await group.send(Request<[String]>.get("links"))
            for link in start.value {
                group.enqueue(Request<[String]>.get(link)) { result in
                    let found = (try? result.get().value) ?? []
                    for next in found where isNew(next) {
                        group.enqueue(Request<[String]>.get(next))
                    }
                }
            }
            return start.value.count
        }
        manager.enqueue(crawl)
        #expect(try await crawl.value == 2)
        #expect(stub.calls.count == 4)
    }

    /// This code is only compiled, because the authority's file does not exist.
    private func connectDifferently(
        _ proxyURL: URL, _ authorityFile: URL, _ configuration: inout RequestManager.Configuration
    ) throws {
        var options = ConnectionOptions()
        options.proxy = .server(proxyURL)
        options.trust = .certificates(in: authorityFile)
        configuration.transport = try .connecting(with: options)
    }

    /// This code is only compiled, because it changes how the process of all tests handles SIGINT.
    private func stopOnInterrupt(_ manager: RequestManager) async {
        signal(SIGINT, SIG_IGN)
        let interrupt = DispatchSource.makeSignalSource(signal: SIGINT)
        interrupt.setEventHandler { manager.cancelAll() }
        interrupt.resume()
        await manager.drain()
    }

    @Test func drain() async throws {
        let manager = makeManager()
        manager.enqueue(Request<Data>.get("tiles/1"))
        await manager.drain()
        #expect(stub.calls.count == 1)
    }
}
