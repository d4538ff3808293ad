// The code of the pages about errors, retries, deadlines, credentials and cookies, against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct FailuresPageTests {
    nonisolated struct Refusal: Error, Decodable { let reason: String }
    nonisolated struct Token: Decodable, Sendable { let accessToken: String }
    private let stub = StubTransport()
    private let url = "http://example.com/report"

    private func makeManager(_ configuration: RequestManager.Configuration = .init()) -> RequestManager {
        var configuration = configuration
        configuration.transport = .custom(stub)
        return RequestManager(configuration: configuration)
    }

    @Test func errors() async throws {
        stub.route("/report", replies: .json(#"{"reason": "no paper"}"#, statusCode: 409))
        let manager = makeManager()
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        let request = Request<Data>.get(url).failing(with: Refusal.self)
        do {
            let report = try await manager.send(request).value
            show("\(report.count) bytes")
        } catch {
            switch error.code {
            case .unacceptableStatus:
                let refusal = error.refusal(as: Refusal.self)
                show(refusal?.reason ?? "\(error.response?.statusCode ?? 0)")
            case .timedOut, .deadlineExceeded: show("too slow")
            case .cancelled: break
            default: show(error.message)
            }
            for attempt in error.attempts { print(attempt) }
        }
        #expect(shown == ["no paper"])
    }

    @Test func retries() async throws {
        stub.route("/report", replies: .status(503), .status(200))
        var configuration = RequestManager.Configuration()
        configuration.retries = RetryPolicy(maxRetries: 5)
        configuration.retryBudget = RetryBudget(ratio: 0.1)
        configuration.deadline = .seconds(60)
        configuration.jitter = { 0 }
        let manager = makeManager(configuration)
        let request = Request<Data>.post(url)
            .idempotencyKey("order-17")
            .attemptTimeout(.seconds(10))
            .deadline(.seconds(30))
        let report = try await manager.send(request)
        print(report.attempts.count)
        #expect(report.attempts.count == 2)
    }

    @Test func redirects() async throws {
        stub.route("/report", replies: .redirect(to: "/moved"))
        stub.route("/moved", replies: .status(200))
        let policy = RedirectPolicy(maxCount: 5) { (hop: Redirect) in
            let isSame = hop.to.url.host() == hop.from.url.host()
            return isSame ? RedirectDecision.follow : .refuse
        }
        let request = Request<Data>.get(url).redirects(policy)
        let response = try await makeManager().send(request)
        #expect(response.redirects.map(\.path) == ["/moved"])
    }

    struct Signing: RequestInterceptor {
        func adapt(
            _ request: PreparedRequest, for attempt: AttemptContext
        ) async throws -> PreparedRequest {
            var request = request
            request.headerFields["X-Attempt"] = "\(attempt.number)"
            return request
        }

        func decide(
            after end: AttemptEnd, of attempt: AttemptContext
        ) async throws -> InterceptorDecision {
            guard end.response?.statusCode == 429, attempt.number < 3 else {
                return InterceptorDecision.proceed
            }
            return .retry(after: .seconds(1))
        }
    }

    @Test func interceptors() async throws {
        let clock = VirtualClock()
        stub.route("/report", replies: .status(429), .status(200))
        var configuration = RequestManager.Configuration(clock: clock)
        configuration.interceptors = [Signing()]
        let operation = makeManager(configuration).enqueue(Request<Data>.get(url))
        try await clock.advanceToNextTimer()
        #expect(try await operation.response().attempts.count == 2)
        #expect(stub.calls.map { $0.headerFields["X-Attempt"] } == ["1", "2"])
    }

    @Test func tokens() async throws {
        stub.route("/token", replies: .json(#"{"accessToken": "fresh"}"#))
        stub.route("/report") { $0.headerFields["Authorization"] == "Bearer fresh" ? .status(200) : .status(401) }
        let tokens = makeManager()
        let apiURL = try #require(URL(string: "http://example.com"))
        let tokenURL = apiURL.appending(path: "token")
        var configuration = RequestManager.Configuration(baseURL: apiURL)
        configuration.interceptors = [
            try BearerAuthenticator(origins: [apiURL]) { reason in
                let request = Request<Token>.post(tokenURL)
                return try await tokens.send(request).value.accessToken
            }
        ]
        #expect(try await makeManager(configuration).send(Request<Data>.get("report")).statusCode == 200)
        configuration.interceptors = [
            try BearerAuthenticator(
                origins: [apiURL], refreshesBefore: .seconds(60)
            ) { _ in
                let new = try await tokens.send(Request<Token>.post(tokenURL))
                return BearerAuthenticator.Token(
                    new.value.accessToken, lifetime: .seconds(3_600))
            }
        ]
        #expect(try await makeManager(configuration).send(Request<Data>.get("report")).statusCode == 200)
    }

    @Test func passwordsAndCookies() async throws {
        stub.route("/**", replies: .status(200, headerFields: ["Set-Cookie": "sid=1; Path=/; Max-Age=600"]))
        let apiURL = try #require(URL(string: "http://example.com"))
        let file = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
        let password = "secret"
        var configuration = RequestManager.Configuration()
        configuration.interceptors = [
            try PasswordAuthenticator(
                user: "ada", password: password, origins: [apiURL])
        ]
        let jar = CookieJar()
        configuration.cookies = jar
        _ = try await makeManager(configuration).send(Request<Data>.get(url))
        try JSONEncoder().encode(jar.cookies).write(to: file)
        let kept = try JSONDecoder().decode(
            [Cookie].self, from: Data(contentsOf: file))
        for cookie in kept { jar.set(cookie) }
        #expect(jar.cookieField(for: apiURL) == "sid=1")
        try FileManager.default.removeItem(at: file)
    }

    @Test func connections() throws {
        let pin = "FBXih77Ywl+eNHUF9O2TA+fgT8nKAD4ZSM6NiH4T90c="
        var options = ConnectionOptions()
        options.minimumTLSVersion = .tls13
        options.pinnedPublicKeys = [pin]
        options.connectTimeout = .seconds(5)
        let transport = try TransportChoice.connecting(with: options)
        let manager = RequestManager(
            configuration: .init(transport: transport))
        #expect(manager.operations.isEmpty)
    }
}
