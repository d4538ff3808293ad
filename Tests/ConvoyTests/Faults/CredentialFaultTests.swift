// Tests servers that respond to credentials with 401 in various ways.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct CredentialFaultTests {
        /// The challenges of a server, and the expected number of requests: one without credentials and at most one
        /// with them.
        private static let challenges: [(fields: [String], requests: Int)] = [
            ([], 1), ([""], 1), ([","], 1), (["Basic realm=\"r\""], 2), (["Basic"], 2), (["basic realm=r"], 2),
            (["Basic realm=\"r"], 2), (["Digest realm=\"r\", nonce=\"n\", qop=\"auth\""], 2),
            (["Digest realm=r, nonce=n, qop=auth, algorithm=SHA-256"], 2), (["Digest realm=r, nonce=n, stale=true"], 2),
            (["Digest"], 1), (["Digest realm=r"], 1), (["Digest realm=r, nonce=n, algorithm=X"], 1),
            (["Digest realm=r, nonce=n, qop=auth-int"], 1), (["Negotiate"], 1), (["Negotiate abc=="], 1), (["NTLM"], 1),
            (["Bearer error=\"invalid_token\""], 1), (["Negotiate", "Basic realm=r"], 2),
            (["Negotiate, Basic realm=r"], 2),
            (["\u{1}\u{2}garbage=\"\\"], 1), ([String(repeating: "Basic a=b, ", count: 500)], 2),
        ]

        private func server(
            _ ground: FaultGround, _ challenge: [String], interceptors: [any RequestInterceptor] = []
        ) throws -> ScriptedServer {
            let refusal = ServerAct.answer(401, challenge.map { ("WWW-Authenticate", $0) }, body: "denied")
            return try ScriptedServer(ground, [refusal]) { $0.interceptors = interceptors }
        }

        /// Without an authenticator the 401 is the response, with its body, whatever the challenge.
        @Test(arguments: FaultGround.all, challenges)
        func refusalIsDeliveredOnce(ground: FaultGround, challenge: (fields: [String], requests: Int)) async throws {
            let server = try server(ground, challenge.fields)
            for method in [HTTPMethod.get, .post] {
                let request = Request<String>(method: method, url: server.url())
                let error = try await server.error(of: request)
                #expect(error.code == .unacceptableStatus, "\(error)")
                #expect(error.response?.statusCode == 401)
                #expect(error.body == Data("denied".utf8))
                #expect(!error.isRetryable)
                #expect(error.attempts.count == 1)
                #expect(try await server.response(to: request.acceptableStatusCodes(.any)).value == "denied")
            }
            #expect(server.seen.count == 4)
            #expect(server.seen.allSatisfy { !$0.fields.contains("Authorization") })
        }

        /// A wrong password is tried once, and the second 401 is the response.
        @Test(arguments: FaultGround.all, challenges)
        func wrongPasswordIsTriedOnce(ground: FaultGround, challenge: (fields: [String], requests: Int)) async throws {
            let authenticator = try PasswordAuthenticator(user: "Mufasa", password: "hunter2")
            let server = try server(ground, challenge.fields, interceptors: [authenticator])
            let error = try await server.error(of: Request<Data>.get(server.url()))
            #expect(error.code == .unacceptableStatus, "\(error)")
            #expect(error.response?.statusCode == 401)
            #expect(error.body == Data("denied".utf8))
            #expect(error.attempts.map(\.statusCode) == Array(repeating: 401, count: challenge.requests))
            #expect(!"\(error) \(error.attempts)".contains("hunter2"))
            let hasCredentials = server.seen.map { $0.fields.contains("Authorization") }
            #expect(hasCredentials == Array([false, true].prefix(challenge.requests)))
            #expect(server.clock.elapsed == .zero)
        }

        /// The body is sent again from its start with the credentials.
        ///
        /// Only the last response is written to a file.
        @Test(arguments: FaultGround.all, ["Basic realm=r", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""])
        func rightPasswordIsSentWithTheWholeBody(ground: FaultGround, challenge: String) async throws {
            let (directory, body) = (try TemporaryDirectory(), Reply.pattern(range: 0..<100_000))
            let file = directory.file("target")
            let server = try ScriptedServer(ground) { configuration in
                configuration.interceptors = [try PasswordAuthenticator(user: "Mufasa", password: "p")]
            } script: { request, _ in
                guard request.fields.contains("Authorization") else {
                    return .answer(401, [("WWW-Authenticate", challenge)], body: "denied")
                }
                return .answer(200, body: "granted")
            }
            let request = Request<Data>.post(server.url()).body(body).acceptableStatusCodes(.any).saved(to: file)
            let response = try await server.response(to: request)
            #expect(response.statusCode == 200)
            #expect(response.attempts.map(\.next) == [.intercepted(after: .zero), .outcome])
            #expect(try String(contentsOf: file, encoding: .utf8) == "granted")
            #expect(server.seen.map(\.body) == [body, body])
        }

        /// If the server also rejects the fresh token, the token is not refreshed again.
        @Test(arguments: FaultGround.all)
        func tokenIsRefreshedOnce(ground: FaultGround) async throws {
            let refreshes = Locked(0)
            let authenticator = BearerAuthenticator(token: "t0") { _ in
                refreshes.withLock { refreshes in
                    refreshes += 1
                    return "t\(refreshes)"
                }
            }
            let server = try server(ground, ["Bearer"], interceptors: [authenticator])
            let error = try await server.error(of: Request<Data>.get(server.url()))
            #expect(error.response?.statusCode == 401)
            #expect(server.seen.map { $0.fields["Authorization"] } == ["Bearer t0", "Bearer t1"])
            #expect(refreshes.withLock { $0 } == 1)
        }

        /// A server that alternates between 401 and 503 receives the password in one attempt and its retry.
        @Test(arguments: FaultGround.all)
        func refusalsBetweenRetriesAreCountedTogether(ground: FaultGround) async throws {
            let server = try ScriptedServer(ground) { configuration in
                configuration.interceptors = [try PasswordAuthenticator(user: "Mufasa", password: "p")]
            } script: { _, index in
                index % 2 == 0 ? .answer(401, [("WWW-Authenticate", "Basic realm=r")]) : .answer(503)
            }
            let error = try await server.error(of: Request<Data>.get(server.url()))
            #expect(error.response?.statusCode == 401)
            #expect(error.attempts.map(\.statusCode) == [401, 503, 401])
            #expect(server.seen.map { $0.fields.contains("Authorization") } == [false, true, true])
        }

        /// A server that responds with 401 after a redirect to it from another origin receives no password.
        @Test(arguments: FaultGround.wire)
        func refusalElsewhereGetsNoPassword(ground: FaultGround) async throws {
            let second = try server(ground, ["Basic realm=r"])
            let first = try ScriptedServer(ground, [.redirect(to: second.url("/left"))]) {
                $0.interceptors = [try PasswordAuthenticator(user: "Mufasa", password: "p")]
            }
            let error = try await first.error(of: Request<Data>.get(first.url()))
            #expect(error.response?.statusCode == 401)
            #expect(error.body == Data("denied".utf8))
            #expect(second.seen.map { $0.fields.contains("Authorization") } == [false])
        }
    }
}
