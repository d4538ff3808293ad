// Tests servers that respond to credentials with 401 in various ways, and those that cannot be trusted.
import Convoy
import Foundation
import Testing

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct CredentialFaultTests {
        /// The challenges of a server, and the expected number of requests: one without credentials and at most one
        /// with them.
        private static let challenges: [(fields: [String], requests: Int)] = [
            ([], 1), ([""], 1), (["Basic realm=\"r\""], 2),
            (["Digest realm=r, nonce=n, qop=auth, algorithm=SHA-256"], 2),
            (["Digest realm=r, nonce=n, stale=true"], 2), (["Digest"], 1), (["Negotiate abc=="], 1), (["NTLM"], 1),
            (["Bearer error=\"invalid_token\""], 1), (["Negotiate", "Basic realm=r"], 2),
            (["Negotiate, Basic realm=r"], 2),
            (["\u{1}\u{2}garbage=\"\\"], 1), ([String(repeating: "Basic a=b, ", count: 500)], 2),
        ]

        private func server(
            _ ground: ConformingTransport, _ challenge: [String], _ interceptors: any RequestInterceptor...
        ) throws -> ScriptedServer {
            let refusal = ServerAct.answer(401, challenge.map { ("WWW-Authenticate", $0) }, body: "denied")
            return try ScriptedServer(ground, [refusal]) { $0.interceptors = interceptors }
        }

        /// Without an authenticator the 401 is the response, with its body, whatever the challenge.
        ///
        /// A wrong password is tried once, and the second 401 is the response.
        @Test(arguments: ConformingTransport.all, challenges)
        func refusalIsDelivered(ground: ConformingTransport, challenge: (fields: [String], requests: Int)) async throws
        {
            let plain = try server(ground, challenge.fields)
            let wrong = try server(
                ground, challenge.fields, PasswordAuthenticator(user: "Mufasa", password: "hunter2"))
            for (server, count) in [(plain, 1), (wrong, challenge.requests)] {
                for method in [HTTPMethod.get, .post].prefix(count == 1 ? 2 : 1) {
                    let request = Request<String>(method: method, url: server.url())
                    let error = try await server.error(of: request)
                    #expect(error.code == .unacceptableStatus, "\(error)")
                    #expect(error.response?.statusCode == 401)
                    #expect(error.body == Data("denied".utf8))
                    #expect(!error.isRetryable)
                    #expect(error.attempts.map(\.statusCode) == Array(repeating: 401, count: count))
                    #expect(!"\(error) \(error.attempts)".contains("hunter2"))
                }
            }
            let accepting = Request<String>.get(plain.url()).acceptableStatusCodes(.any)
            #expect(try await plain.response(to: accepting).value == "denied")
            #expect(plain.seen.count == 3)
            #expect(plain.seen.allSatisfy { !$0.fields.contains("Authorization") })
            let hasCredentials = wrong.seen.prefix(challenge.requests).map { $0.fields.contains("Authorization") }
            #expect(hasCredentials == Array([false, true].prefix(challenge.requests)))
            #expect(wrong.clock.elapsed == .zero)
        }

        /// A server that alternates between 401 and 503 receives the password in one attempt and its retry.
        @Test(arguments: ConformingTransport.all)
        func refusalsBetweenRetriesAreCountedTogether(ground: ConformingTransport) async throws {
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
    }
}

#if canImport(CLibcurl)
    extension FaultsWithRepeats {
        @Suite(.timeLimit(.minutes(5))) struct TrustFaultTests {
            /// A manager whose policy also retries TLS failures.
            private func manager(_ transport: any Transport) -> RequestManager {
                var configuration = RequestManager.Configuration(transport: .custom(transport))
                configuration.retries = RetryPolicy(baseDelay: .milliseconds(1))
                configuration.retries.errorCodes.insert(.tlsFailed)
                return RequestManager(configuration: configuration)
            }

            /// URLSession on Linux has no setting for trust, so every certificate has an unknown authority there.
            @Test(arguments: ConformingTransport.all, CurlTrustTests.BadServer.allCases)
            func serverThatCannotBeTrustedIsAskedOnce(ground: ConformingTransport, bad: CurlTrustTests.BadServer)
                async throws
            {
                let server = try await bad.start()
                let curl = try CurlTransport.trusting { if bad == .unknownAuthority { $0.trust = .system } }
                let transport: any Transport = ground.isURLSession ? ground.transport : curl
                let error = await #expect(throws: RequestError.self) {
                    try await manager(transport).send(Request<Data>.get(server.url()).bearer("hunter2"))
                }
                #expect(error?.code == .tlsFailed, "\(error.map { "\($0)" } ?? "")")
                #expect(error?.isRetryable == false)
                #expect(error?.response == nil)
                #expect(error?.attempts.map(\.failure) == [.tlsFailed])
                #expect(error?.description.isOneLine == true && error?.description.contains("hunter2") == false)
                #expect(server.heads == [])
            }

            /// A server without TLS on an https port.
            @Test(arguments: ConformingTransport.all)
            func peerWithoutTLSIsAskedOnce(ground: ConformingTransport) async throws {
                let peer = try LoopbackListener { connection in
                    _ = connection.read()
                    connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.readToEnd()
                }
                let error = await #expect(throws: RequestError.self) {
                    try await manager(ground.transport).send(
                        Request<Data>.get("https://127.0.0.1:\(peer.port)/"))
                }
                #expect(error?.code == .tlsFailed, "\(error.map { "\($0)" } ?? "")")
                #expect(error?.attempts.count == 1)
                // URLSession opens no connection if its libcurl finds no trusted certificates.
                #expect(peer.connectionCount <= 1)
            }

            /// An HTTPS server that redirects.
            ///
            /// The program openssl sends a file as the complete response.
            private func redirector(to location: String) async throws -> (server: TLSServer, url: String) {
                let certificates = try Certificates.shared
                let name = "redirect-\(UUID().uuidString)"
                let answer =
                    "HTTP/1.1 307 Temporary Redirect\r\nLocation: \(location)\r\nContent-Length: 5\r\n"
                    + "Connection: close\r\n\r\nmoved"
                try Data(answer.utf8).write(to: certificates.directory.appending(path: name))
                let server = try await TLSServer(certificates.server, ["-HTTP"])
                return (server, server.url("/\(name)"))
            }

            /// Even if the redirect is allowed, secrets are not sent, because another scheme is another origin.
            @Test func aRedirectFromHTTPSToHTTPIsRefusedUnlessAllowedAndSendsNoSecrets() async throws {
                let plain = try TestServer(always: .status(200, body: "read by all"))
                let (secure, url) = try await redirector(to: plain.url("/left").absoluteString)
                defer { secure.shutDown() }
                let manager = manager(try CurlTransport.trusting())
                let request = Request<String>.get(url).bearer("hunter2").header("Cookie", "a=hunter2")
                    .secretHeader("X-Key", "hunter2")
                let error = await #expect(throws: RequestError.self) { try await manager.send(request) }
                #expect(error?.code == .redirectRefused)
                #expect(error?.message.contains("https to http") == true)
                #expect(error?.response?.statusCode == 307)
                #expect(error?.attempts.count == 1)
                #expect(plain.connectionCount == 0)
                let insecure = request.redirects(RedirectPolicy(allowsInsecure: true))
                #expect(try await manager.send(insecure).value == "read by all")
                let seen = try await plain.takeRequest()
                #expect(!String(decoding: seen.headerBytes, as: UTF8.self).contains("hunter2"))
            }

            /// Secrets are not sent after a redirect from http to https, because another scheme is another origin.
            @Test func aRedirectFromHTTPToHTTPSSendsNoSecrets() async throws {
                let secure = try await TLSServer(Certificates.shared.server)
                let plain = try TestServer(always: .redirect(to: secure.url("/safe"), statusCode: 308))
                let request = Request<String>.get(plain.url("/a")).bearer("hunter2").header("Cookie", "a=hunter2")
                let response = try await manager(CurlTransport.trusting()).send(request)
                #expect(response.value == "hello")
                #expect(secure.heads.map { $0.hasPrefix("GET /safe ") } == [true])
                #expect(!secure.heads.joined().contains("hunter2"))
            }
        }
    }
#endif
