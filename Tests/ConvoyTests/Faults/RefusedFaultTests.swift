// Tests unreachable servers with retries.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    extension FaultsWithRepeats {
        @Suite(.timeLimit(.minutes(5))) struct RefusedFaultTests {
            /// A manager in virtual time.
            ///
            /// Without a transport the manager uses a stub that refuses connections.
            private func server(
                _ ground: FaultGround, unit: @escaping @Sendable () -> Double = { 0.5 }
            ) throws -> ScriptedServer {
                let refused = ServerAct(
                    testDescription: "", reply: .status(200),
                    stub: { $0.finish(RequestError(.connectionFailed, "refused, as scripted")) })
                return try ScriptedServer(ground, [refused]) { $0.jitter = unit }
            }

            @Test(arguments: FaultGround.all, [HTTPMethod.get, .put, .delete])
            func refusalThatLastsIsTheOutcomeOfTheLastTry(ground: FaultGround, method: HTTPMethod) async throws {
                let (closed, server) = (try LoopbackPort.refusing(), try server(ground))
                let error = try await server.error(
                    of: Request<Data>(method: method, url: "http://127.0.0.1:\(closed.port)/a"))
                #expect(error.code == .connectionFailed, "\(error)")
                #expect(error.response == nil)
                #expect(error.attempts.map(\.failure) == Array(repeating: .connectionFailed, count: 4))
                #expect(error.attempts.map(\.next) == Self.waits + [.outcome])
                #expect(server.clock.elapsed == .milliseconds(1_750))
                #expect(error.request == "\(method) http://127.0.0.1:\(closed.port)/a")
                #expect(error.description.isOneLine)
                withExtendedLifetime(closed) {}
            }

            /// The policy's delays of 0.5, 1 and 2 seconds, halved by the jitter of 0.5.
            private static let waits = [250, 500, 1_000].map { AttemptRecord.Next.retry(after: .milliseconds($0)) }

            @Test(arguments: FaultGround.all, [HTTPMethod.post, .patch])
            func refusedPostIsSentAgain(ground: FaultGround, method: HTTPMethod) async throws {
                let (closed, server) = (try LoopbackPort.refusing(), try server(ground))
                let request = Request<Data>(method: method, url: "http://127.0.0.1:\(closed.port)/a").body(
                    Data("x".utf8))
                let error = try await server.error(of: request)
                #expect(error.code == .connectionFailed, "\(error)")
                #expect(error.attempts.map(\.next) == Self.waits + [.outcome])
                withExtendedLifetime(closed) {}
            }

            /// The server is reachable again before the last attempt.
            @Test(arguments: FaultGround.wire)
            func serverThatComesBackIsReached(ground: FaultGround) async throws {
                let (port, tries) = (try LatePort(answering: "whole"), Locked(0))
                let server = try server(ground) {
                    // The manager calls this closure before each wait. The port opens before the third wait, so the
                    // fourth attempt succeeds.
                    let number = tries.withLock { tries in
                        tries += 1
                        return tries
                    }
                    if number == 3 { port.open() }
                    return 0.5
                }
                let put = Request<String>.put("http://127.0.0.1:\(port.number)/a").body(Data("body".utf8))
                let response = try await server.response(to: put)
                #expect(response.value == "whole")
                #expect(response.attempts.map(\.next) == Self.waits + [.outcome])
                #expect(
                    response.attempts.map(\.failure).dropLast() == Array(repeating: .connectionFailed, count: 3)[...])
                #expect(port.heads.events.map { $0.hasPrefix("PUT /a ") } == [true])
            }

            /// A request to a host that does not answer is retried after a timeout.
            ///
            /// Over libcurl the connect timeout ends the attempt. Over URLSession the idle timeout ends it.
            @Test(arguments: FaultGround.wire)
            func blackHoleIsTriedAgain(ground: FaultGround) async throws {
                let hole = try BlackHole()
                let transport =
                    ground.isURLSession
                    ? ground.transport
                    : try CurlTransport.alone {
                        $0.connectTimeout = .milliseconds(100)
                    }
                let server = try server(FaultGround(testDescription: "", transport: transport))
                let request = Request<Data>.get("http://127.0.0.1:\(hole.port)/")
                    .idleTimeout(ground.isURLSession ? .seconds(1) : .seconds(60)).retries(
                        RetryPolicy(maxRetries: 1))
                let error = try await server.error(of: request)
                #expect(error.code == (ground.isURLSession ? .timedOut : .connectionFailed), "\(error)")
                #expect(error.isRetryable)
                #expect(error.response == nil)
                #expect(error.attempts.map(\.failure) == [error.code, error.code])
                withExtendedLifetime(hole) {}
            }

            /// The domain `.invalid` never has addresses: RFC 6761, section 6.4.
            @Test(arguments: FaultGround.wire)
            func hostWithoutAnAddressIsAskedForTwice(ground: FaultGround) async throws {
                let server = try server(ground)
                let error = try await server.error(of: Request<Data>.get("http://convoy.invalid/"))
                #expect(error.code == .connectionFailed, "\(error)")
                #expect(error.attempts.count == 2)
                #expect(error.description.contains("convoy.invalid"))
                let post = try await server.error(of: Request<Data>.post("http://convoy.invalid/"))
                #expect(post.attempts.count == 2)
            }

            /// URLSession on Linux rejects an address in brackets (NSURLErrorBadURL), so the origin needs a name
            /// there.
            @Test(arguments: FaultGround.wire, ["[::1]", "localhost"])
            func originWithIPv6OnlyIsReachedOrRefusedAtOnce(ground: FaultGround, host: String) async throws {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
                // Without IPv6 this test is skipped.
                guard let origin = try IPv6OnlyServer(answering: answer) else { return }
                let server = try server(ground)
                let result = try await server.result(of: Request<String>.get("http://\(host):\(origin.port)/"))
                switch result {
                case .success(let response):
                    #expect(response.value == "hello")
                    #expect(response.attempts.count == 1)
                case .failure(let error):
                    #expect(ground.isURLSession && host == "[::1]", "\(error)")
                    #expect(error.attempts.count == 1)
                    #expect(!error.isRetryable)
                }
                withExtendedLifetime(origin) {}
            }
        }
    }

    /// A port on 127.0.0.1 that refuses connections until it is opened, and then sends one response to each
    /// connection.
    private final class LatePort: Sendable {
        let number: Int
        /// The heads of the received requests.
        let heads = EventLog<String>()
        private let descriptor: Int32
        private let body: String
        private let isOpen = Locked(false)

        init(answering body: String) throws {
            (descriptor, number) = try LoopbackSocket.bound()
            self.body = body
        }

        func open() {
            isOpen.withLock { $0 = true }
            listen(descriptor, 16)
            Thread.detachNewThread { [descriptor, heads, body] in
                while case let number = accept(descriptor, nil, nil), number >= 0 {
                    let connection = LoopbackConnection(number)
                    guard let head = connection.readHead() else { continue }
                    heads.record(head)
                    // The body is read, because a reset for unread bytes could destroy the response.
                    if head.hasPrefix("PUT") { _ = connection.read() }
                    connection.write(
                        "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)")
                    connection.close()
                }
                close(descriptor)
            }
        }

        deinit {
            // Wakes the accepting thread, which closes the socket.
            if isOpen.withLock({ $0 }) { shutdown(descriptor, Int32(SHUT_RDWR)) } else { close(descriptor) }
        }
    }
#endif
