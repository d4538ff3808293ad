// Tests redirects that could leak secrets. RedirectFollowingTests covers the stub with every kind of hop.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct RedirectSecretFaultTests {
        /// The part of the origin in which the target of a redirect differs.
        enum Elsewhere: CaseIterable {
            case port, host, both
        }

        /// A server that redirects to another origin, and the server of that origin.
        ///
        /// If `back` is set, the second server redirects to the first again.
        private func servers(
            _ ground: FaultGround, to place: Elsewhere, statusCode: Int, back: Bool = false,
            configure: (inout RequestManager.Configuration) throws -> Void = { _ in }
        ) throws -> (first: ScriptedServer, second: ScriptedServer) {
            let (start, end) = (Locked(""), Locked(""))
            let second = try ScriptedServer(ground) { _, _ in
                back ? .redirect(307, to: start.withLock { $0 }) : .answer(200, body: "there")
            }
            let first = try ScriptedServer(ground, configure: configure) { request, _ in
                switch request.target {
                case "/start": .redirect(statusCode, to: "/same")
                case "/same": .redirect(statusCode, to: end.withLock { $0 })
                default: .answer(200, body: "back")
                }
            }
            let target =
                switch place {
                case .port: second.url("/left")
                case .host: first.url("/left")
                case .both: second.url("/left")
                }
            end.withLock { $0 = place == .port ? target : target.replacing("127.0.0.1", with: "localhost") }
            start.withLock { $0 = first.url("/back") }
            return (first, second)
        }

        private func secretRequest(_ server: ScriptedServer, _ method: HTTPMethod = .get) -> Request<String> {
            // The libcurl transport rejects every Proxy-Authorization field; see RedirectSecretsTests.
            Request<String>(method: method, url: server.url("/start")).bearer("hunter2")
                .header("Cookie", "a=hunter2").secretHeader("X-API-Key", "hunter2").header("X-Plain", "1")
        }

        /// The redirect leads to another port, another host, or both.
        ///
        /// Fields that are not secret are sent along.
        @Test(arguments: FaultGround.wire, Elsewhere.allCases)
        func secretsStayWithTheirOrigin(ground: FaultGround, place: Elsewhere) async throws {
            for statusCode in [301, 302, 303, 307, 308] {
                let (first, second) = try servers(ground, to: place, statusCode: statusCode)
                let response = try await first.response(to: secretRequest(first))
                #expect(response.redirects.count == 2)
                let all = first.seen + second.seen
                #expect(all.map(\.target) == ["/start", "/same", "/left"])
                for (index, seen) in all.enumerated() {
                    let isAtHome = index < 2
                    #expect((seen.fields["Authorization"] == "Bearer hunter2") == isAtHome)
                    #expect((seen.fields["Cookie"] == "a=hunter2") == isAtHome)
                    #expect((seen.fields["X-API-Key"] == "hunter2") == isAtHome)
                    #expect(seen.fields["X-Plain"] == "1")
                    #expect(isAtHome || !seen.fields.contains { $0.value.contains("hunter2") })
                }
            }
        }

        /// A 307 sends the body to the other origin, but not the credentials.
        ///
        /// The credentials are not sent after the redirect back, because the other origin chose that target.
        @Test(arguments: FaultGround.wire)
        func secretsDoNotComeBack(ground: FaultGround) async throws {
            let (first, second) = try servers(ground, to: .port, statusCode: 307, back: true)
            let body = Reply.pattern(range: 0..<100_000)
            let response = try await first.response(to: secretRequest(first, .post).body(body))
            #expect(response.value == "back")
            #expect((first.seen + second.seen).map(\.target) == ["/start", "/same", "/back", "/left"])
            #expect((first.seen + second.seen).map(\.body) == [body, body, body, body])
            #expect(first.seen.map { $0.fields.contains("Authorization") } == [true, true, false])
            #expect(second.seen.map { $0.fields.contains("Authorization") } == [false])
        }

        /// After a redirect to another origin, the fields of an authenticator or an interceptor are not sent.
        @Test(arguments: FaultGround.wire, Elsewhere.allCases)
        func credentialsOfAnAuthenticatorStay(ground: FaultGround, place: Elsewhere) async throws {
            let adding = Interceptor(adapting: { request, _ in
                var request = request
                request.headerFields.add("X-Key", "hunter2", isSecret: true)
                return request
            })
            let (first, second) = try servers(ground, to: place, statusCode: 302) {
                $0.interceptors = [BearerAuthenticator(token: "hunter2") { _ in "hunter3" }, adding]
            }
            let response = try await first.response(to: Request<String>.get(first.url("/start")))
            #expect(response.redirects.count == 2)
            let all = first.seen + second.seen
            #expect(all.map { $0.fields.contains("Authorization") } == [true, true, false])
            #expect(all.map { $0.fields.contains("X-Key") } == [true, true, false])
        }

        /// The user name and password of a URL are only sent to that URL's origin.
        @Test(arguments: FaultGround.wire)
        func userInfoOfALocationIsNotSentToAnotherOrigin(ground: FaultGround) async throws {
            let second = try ScriptedServer(ground, [.answer(200)])
            let location = second.url("/left").replacing("http://", with: "http://user:hunter2@")
            let first = try ScriptedServer(ground, [.redirect(to: location)])
            let response = try await first.response(to: Request<Data>.get(first.url()))
            #expect(response.request.url.user() == nil)
            #expect(second.seen.map { $0.fields.contains("Authorization") } == [false])
        }

        /// Errors and records show no secret.
        @Test(arguments: FaultGround.wire)
        func errorsOfRedirectsShowNoSecret(ground: FaultGround) async throws {
            let server = try ScriptedServer(ground) { _, index in
                .redirect(to: "http://user:hunter2@nobody.invalid/?\(index)")
            }
            let error = try await server.error(of: secretRequest(server))
            #expect(error.code == .connectionFailed, "\(error)")
            let told = "\(error) \(error.attempts) \(String(reflecting: error.attempts.map(\.description)))"
            #expect(!told.contains("hunter2"), "\(told)")
        }
    }
}
