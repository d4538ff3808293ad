// The code of the page "An API client", against a server.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite nonisolated struct APIClientPageTests {
    struct Tokens: Decodable, Sendable { let access, refresh: String }
    struct Page: Decodable, Sendable { let notes: [String], next: String? }
    struct Refusal: Error, Decodable { let field, reason: String }

    actor Session {
        private let manager: RequestManager
        private var refreshToken: String

        init(_ manager: RequestManager, refreshToken: String) {
            self.manager = manager
            self.refreshToken = refreshToken
        }

        func freshToken() async throws -> String {
            let request = Request<Tokens>.post(
                "refresh", json: ["refresh": refreshToken])
            let tokens = try await manager.send(request).value
            refreshToken = tokens.refresh
            return tokens.access
        }
    }

    struct APIClient {
        private let manager: RequestManager

        init(base: URL, session: Session) throws {
            var configuration = RequestManager.Configuration(baseURL: base)
            configuration.retries = .standard
            configuration.monitors = [LogMonitor(minimumLevel: .error)]
            configuration.interceptors = [
                try BearerAuthenticator(origins: [base]) { _ in
                    try await session.freshToken()
                }
            ]
            manager = RequestManager(configuration: configuration)
        }

        func notes() async throws(RequestError) -> [String] {
            let first = Request<Page>.get("notes")
            let pages = manager.pages(first) { page in
                page.value.next.map { first.query("cursor", $0) }
            }
            var notes: [String] = []
            for try await page in pages { notes += page.value.notes }
            return notes
        }

        func add(_ note: String) async throws(RequestError) {
            let request = Request<Void>.post("notes", json: ["text": note])
                .failing(with: Refusal.self)
            try await manager.send(request)
        }
    }

    private func makeClient(_ server: TestServer) throws -> APIClient {
        let logins = RequestManager(configuration: .init(baseURL: server.url()))
        return try APIClient(base: server.url(), session: Session(logins, refreshToken: "r0"))
    }

    @Test func aFailedResponseHasItsReason() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/refresh") { _ in .json(#"{"access": "a1", "refresh": "r1"}"#) }
        server.route("/notes") { _ in .json(#"{"field": "text", "reason": "empty"}"#, statusCode: 422) }
        let client = try makeClient(server)
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        do {
            try await client.add("")
        } catch {
            let refusal = error.refusal(as: Refusal.self)
            show(refusal?.reason ?? error.message)
        }
        #expect(shown == ["empty"])
    }

    /// Each refresh returns a new refresh token, which the next refresh sends.
    @Test func aRefreshTokenRotates() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/refresh") { request in
            let old = request.bodyText.contains("r0") ? 0 : request.bodyText.contains("r1") ? 1 : 2
            return .json(#"{"access": "a\#(old + 1)", "refresh": "r\#(old + 1)"}"#)
        }
        server.route("/notes") { request in
            guard request.value(of: "Authorization") == "Bearer a2" else { return .status(401) }
            return .json(request.target.contains("cursor") ? #"{"notes": ["b"]}"# : #"{"notes": ["a"], "next": "2"}"#)
        }
        #expect(try await makeClient(server).notes() == ["a", "b"])
        let refreshes = server.recordedRequests.filter { $0.path == "/refresh" }.map(\.bodyText)
        #expect(refreshes == [#"{"refresh":"r0"}"#, #"{"refresh":"r1"}"#])
    }
}
