// The calls of the page for users of other libraries. Each call compiles and runs.
import Convoy
import ConvoyTesting
import Foundation
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite(.serialized) struct ComingFromExampleTests {
    private nonisolated struct User: Codable, Sendable {
        var name = "Ada"
        var link = "http://example.com/next"
    }

    private let stub = StubTransport()
    private let url = URL(string: "http://example.com/users/1") ?? URL(fileURLWithPath: "/")
    private let file = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
    private let manager: RequestManager

    init() {
        stub.route("/**", replies: .json(#"{"name": "Ada", "link": "http://example.com/next"}"#))
        manager = RequestManager(
            configuration: .init(baseURL: URL(string: "http://example.com"), transport: .custom(stub)))
    }

    private func show(_ result: RequestOperation<User>.Result) {}
    private nonisolated func log(_ data: Data?, _ response: ResponseHead?, _ error: RequestError?) {}
    private nonisolated func freshToken() async throws -> String { "token" }

    @Test func requests() async throws {
        let login = User()
        let request = Request<User>.get(url)
        let values: [Any] = [
            Request<User>.post(url, json: login),
            Request<Data>.get(url, query: ["q": "swift"]),
            request.acceptableStatusCodes(.range(200...399)),
            Request<Data>.put(url).body(fromFile: file),
            request.maxBodyBytes(1 << 20),
        ]
        #expect(values.count == 5)
        var form = MultipartForm()
        form.append(Data("x".utf8), name: "photo")
        _ =
            Request<Data>.post(url).multipart(form)
        print(try request.cURLCommand())
    }

    @Test func sending() async throws {
        let user =
            try await manager.send(Request<User>.get(url)).value
        #expect(user.name == "Ada")
        let request = Request<Data>.get(url)
        _ =
            try await manager.send(Request<Data>.get(url))
        _ =
            try await manager.send(request.deadline(.seconds(30)))
        for try await line in manager.lines(of: .get(url)) { print(line) }
        #expect(stub.calls.count == 4)
    }

    @Test func operations() async throws {
        let urls = [url, url]
        let urlRequest = URLRequest(url: url)
        manager.enqueue(Request<User>.get(url)).onFinish(on: .main) { show($0) }
        manager.enqueue(Request<Data>(urlRequest))
        manager.download(url, to: file)
        let batch =
            manager.batch(urls.map { Request<Data>.get($0) })
        let first = manager.operation(Request<User>.get(url))
        let second =
            manager.operation(after: first) { Request<Data>.get($0.value.link) }
        manager.enqueue(first, second)
        _ = try await second.response()
        #expect(await batch.results.count == 2)
        await manager.drain()
        try FileManager.default.removeItem(at: file)
        #expect(stub.calls.map(\.url.path).contains("/next"))
    }

    @Test func settings() async throws {
        var configuration = RequestManager.Configuration(transport: .custom(stub))
        configuration.headerFields["Accept-Language"] = "en"
        configuration.maxConcurrentOperationCount = 4
        configuration.maxConcurrentPerHost = 6
        configuration.redirects = RedirectPolicy(maxCount: 5)
        configuration.interceptors = [
            try BearerAuthenticator(origins: [url]) { _ in try await freshToken() }
        ]
        var options = ConnectionOptions()
        let pin = "FBXih77Ywl+eNHUF9O2TA+fgT8nKAD4ZSM6NiH4T90c="
        options.pinnedPublicKeys = [pin]
        let managers = [
            RequestManager(configuration: configuration),
            RequestManager(configuration: .init(retries: RetryPolicy(maxRetries: 3))),
            RequestManager(configuration: .init(baseURL: url)),
        ]
        _ = try await managers[0].send(Request<Data>.get(url))
        #expect(stub.calls[0].headerFields["Authorization"] == "Bearer token")
        #expect(stub.calls[0].headerFields["Accept-Language"] == "en")
        Net.manager = manager
        await withCheckedContinuation { continuation in
            let log = { @Sendable (data: Data?, response: ResponseHead?, error: RequestError?) in continuation.resume()
            }
            Net.get("users/1") { data, response, error in log(data, response, error) }
        }
        #expect(options.pinnedPublicKeys.count == 1)
    }

    /// Every call in the right column of the page is a line of this file.
    @Test func everyCallOfThePageIsInThisFile() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(
            contentsOf: root.appending(path: "Sources/Convoy/Convoy.docc/ComingFrom.md"), encoding: .utf8)
        let lines = try String(contentsOf: here, encoding: .utf8).split(separator: "\n").map {
            $0.trimmingCharacters(in: [" ", ","])
        }
        let calls = page.split(separator: "\n").filter { $0.hasPrefix("| ") && $0.contains("`") }.compactMap {
            $0.split(separator: "`").dropLast().last.map(String.init)
        }
        #expect(calls.count == 25)
        for call in calls { #expect(lines.contains(call), "\(call)") }
    }
}
