// Tests untrusted servers, and redirects out of TLS.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

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
            @Test(arguments: FaultGround.wire, CurlTrustTests.BadServer.allCases)
            func serverThatCannotBeTrustedIsAskedOnce(ground: FaultGround, bad: CurlTrustTests.BadServer) async throws {
                let server = try await bad.start()
                defer { server.shutDown() }
                var options = try ConnectionOptions.trustingTestAuthority()
                if bad == .unknownAuthority { options.trust = .system }
                let transport = ground.isURLSession ? try #require(ground.transport) : try CurlTransport(options)
                let error = await #expect(throws: RequestError.self) {
                    try await manager(transport).send(Request<Data>.get(server.url()).bearer("hunter2"))
                }
                #expect(error?.code == .tlsFailed, "\(error.map { "\($0)" } ?? "")")
                #expect(error?.isRetryable == false)
                #expect(error?.response == nil)
                #expect(error?.attempts.map(\.failure) == [.tlsFailed])
                #expect(server.heads == [])
            }

            @Test func stubThatCannotBeTrustedIsAskedOnce() async throws {
                let untrusted = ServerAct(
                    testDescription: "", reply: .status(200),
                    stub: { $0.finish(RequestError(.tlsFailed, "as scripted")) })
                let stub = FaultGround(testDescription: "stub", transport: nil)
                let server = try ScriptedServer(stub, [untrusted]) { $0.retries.errorCodes.insert(.tlsFailed) }
                let error = try await server.error(of: Request<Data>.get("https://stub/"))
                #expect(error.attempts.map(\.failure) == [.tlsFailed])
                #expect(server.seen.count == 1)
            }

            /// A server without TLS on an https port.
            @Test(arguments: FaultGround.wire)
            func peerWithoutTLSIsAskedOnce(ground: FaultGround) async throws {
                let peer = try LoopbackListener { connection in
                    _ = connection.read()
                    connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.readToEnd()
                }
                defer { peer.shutDown() }
                let error = await #expect(throws: RequestError.self) {
                    try await manager(try #require(ground.transport)).send(
                        Request<Data>.get("https://127.0.0.1:\(peer.port)/"))
                }
                #expect(error?.code == .tlsFailed, "\(error.map { "\($0)" } ?? "")")
                #expect(error?.attempts.count == 1)
                // URLSession opens no connection if its libcurl finds no trusted certificates.
                #expect(peer.connectionCount <= 1)
            }

            // MARK: Redirects out of TLS

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

            @Test func redirectFromHTTPSToHTTPIsRefused() async throws {
                let plain = try TestServer(always: .status(200, body: "read by all"))
                defer { plain.shutDown() }
                let (secure, url) = try await redirector(to: plain.url("/left").absoluteString)
                defer { secure.shutDown() }
                let manager = manager(try CurlTransport(.trustingTestAuthority()))
                let request = Request<String>.get(url).bearer("hunter2")
                let error = await #expect(throws: RequestError.self) { try await manager.send(request) }
                #expect(error?.code == .redirectRefused)
                #expect(error?.message.contains("https to http") == true)
                #expect(error?.response?.statusCode == 307)
                #expect(error?.attempts.count == 1)
                #expect(plain.connectionCount == 0)
            }

            /// Even if the redirect is allowed, secrets are not sent, because another scheme is another origin.
            @Test func aRedirectFromHTTPSToHTTPSendsNoSecrets() async throws {
                let plain = try TestServer(always: .status(200, body: "read by all"))
                defer { plain.shutDown() }
                let (secure, url) = try await redirector(to: plain.url("/left").absoluteString)
                defer { secure.shutDown() }
                let request = Request<String>.get(url).bearer("hunter2").header("Cookie", "a=hunter2")
                    .secretHeader("X-Key", "hunter2").redirects(RedirectPolicy(allowsInsecure: true))
                let response = try await manager(CurlTransport(.trustingTestAuthority())).send(request)
                #expect(response.value == "read by all")
                let seen = try await plain.takeRequest()
                #expect(!String(decoding: seen.headerBytes, as: UTF8.self).contains("hunter2"))
            }

            /// Secrets are not sent after a redirect from http to https, because another scheme is another origin.
            @Test func aRedirectFromHTTPToHTTPSSendsNoSecrets() async throws {
                let secure = try await TLSServer(Certificates.shared.server)
                defer { secure.shutDown() }
                let plain = try TestServer(always: .redirect(to: secure.url("/safe"), statusCode: 308))
                defer { plain.shutDown() }
                let request = Request<String>.get(plain.url("/a")).bearer("hunter2").header("Cookie", "a=hunter2")
                let response = try await manager(CurlTransport(.trustingTestAuthority())).send(request)
                #expect(response.value == "hello")
                #expect(secure.heads.map { $0.hasPrefix("GET /safe ") } == [true])
                #expect(!secure.heads.joined().contains("hunter2"))
            }

            @Test(arguments: [true, false])
            func redirectOfAStubFromHTTPSToHTTP(isAllowed: Bool) async throws {
                let stub = FaultGround(testDescription: "stub", transport: nil)
                let server = try ScriptedServer(stub, [.redirect(to: "http://stub/left"), .answer(200)]) {
                    $0.redirects.allowsInsecure = isAllowed
                }
                let result = try await server.result(of: Request<Data>.get("https://stub/a").bearer("hunter2"))
                #expect(result.code == (isAllowed ? nil : .redirectRefused))
                #expect(
                    server.seen.map { $0.fields.contains("Authorization") } == (isAllowed ? [true, false] : [true]))
            }
        }
    }
#endif
