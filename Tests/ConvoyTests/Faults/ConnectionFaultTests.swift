// Tests failed connections, and reused connections that the server has closed or closes.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct ConnectionFaultTests {
        @Test func blackHoleIsConnectionFailedAfterTheConnectTimeout() async throws {
            let hole = try BlackHole()
            let transport = try CurlTransport.alone { $0.connectTimeout = .milliseconds(200) }
            let error = try await Sending(Request<Data>.get("http://127.0.0.1:\(hole.port)/"), transport).error()
            error.expect(.connectionFailed, status: 0)
            let server = try TestServer(always: Reply.status(200).stalling())
            let idle = try await Sending(server.get().idleTimeout(.milliseconds(200))).error()
            #expect(idle.code == .timedOut)
            #expect(idle.message != error.message)
            // The attempt timeout includes the time to connect.
            let request = Request<Data>.get("http://127.0.0.1:\(hole.port)/").attemptTimeout(.milliseconds(200))
            let attempt = try await Sending(request).error()
            #expect(attempt.code == .timedOut && attempt.isRetryable, "\(attempt)")
            withExtendedLifetime(hole) {}
        }

        @Test func connectingCanBeCancelled() async throws {
            let hole = try BlackHole()
            let server = try TestServer(always: .status(200))
            let transport = try CurlTransport.alone()
            let sending = Sending(Request<Data>.get("http://127.0.0.1:\(hole.port)/"), transport)
            // The transport's only engine starts requests in order. When this request has a response, libcurl has
            // begun the first one.
            _ = try await Sending(server.get(), transport).response()
            #expect(sending.outcomes.count == 0)
            sending.operation.cancel()
            #expect(try await sending.error().code == .cancelled)
            withExtendedLifetime(hole) {}
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct PoolFaultTests {
        /// The end of the connection races with the next request.
        @Test func aConnectionClosedAfterTheResponseHarmsNoGet() async throws {
            let server = try TestServer()
            server.respond { Reply.status(200, body: $0.path).disconnectingAtEnd() }
            let transport = try CurlTransport.alone()
            for number in 1...100 {
                let response = try await Sending(Request<String>.get(server.url("/\(number)")), transport).response()
                #expect(response.value == "/\(number)")
            }
        }

        /// Each of many requests that lose their connection is sent again.
        ///
        /// libcurl up to 8.16 counts the repetitions of a handle over all its requests, and gives up at the sixth.
        @Test(arguments: [1, 3])
        func manyRequestsMetByAnEndAreEachSentAgain(inFlight: Int) async throws {
            let server = try TestServer()
            server.respond {
                $0.numberOnConnection == 1
                    ? .status(200, body: $0.path) : Reply.status(200).disconnecting(afterBytes: 0)
            }
            let transport = try CurlTransport.alone()
            for round in 1...12 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for place in 1...inFlight {
                        group.addTask {
                            let request = Request<String>.get(server.url("/\(round).\(place)"))
                            let path = try await Sending(request, transport).response().value
                            #expect(path == "/\(round).\(place)")
                        }
                    }
                    try await group.waitForAll()
                }
            }
            // The server received more requests than the test sent, so libcurl has repeated some.
            #expect(server.requestCount > 12 * inFlight)
        }

        /// A partial response shows that the server processed the request.
        ///
        /// Idempotent requests may still be sent again (RFC 9112, section 9.3.1), which libcurl does before the first
        /// line is complete. Other requests must not be sent again.
        @Test(arguments: [1, 12, 16, 17, 30], [HTTPMethod.get, .post])
        func requestMetByAnAnswerCutShortIsNotSentTwice(byteCount: Int64, method: HTTPMethod) async throws {
            let server = try TestServer()
            server.enqueue([.status(200), Reply.status(200, body: "hello").disconnecting(afterBytes: byteCount)])
            server.respond { _ in .status(200, body: "again") }
            let transport = try CurlTransport.alone()
            _ = try await Sending(server.get("/first"), transport).response()
            let request = Request<String>(method: method, url: server.url("/second"))
            let result = try await Sending(request, transport).result()
            let seen = server.recordedRequests.filter { $0.path == "/second" }
            // The second request must arrive on the first connection, or the test covers no reused connection.
            #expect(seen.first?.connectionNumber == 1)
            if let response = try? result.get() {
                #expect(method == .get && response.value == "again" && seen.count == 2)
            } else {
                #expect(result.code == .connectionLost || result.code == .badResponse, "\(result)")
                #expect(seen.count == 1)
            }
        }
    }

    /// A port on 127.0.0.1 that does not answer SYN, because its accept queue is full.
    final class BlackHole: Sendable {
        private let listener: LoopbackPort
        private let clients: [Int32]

        var port: Int { listener.port }

        init() throws {
            listener = try .silent()
            let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
            clients = (0..<16).map { _ in socket(AF_INET, kind, 0) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(listener.port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            for client in clients {
                _ = withUnsafeBytes(of: &address) { bytes in
                    bytes.withMemoryRebound(to: sockaddr.self) {
                        connect(client, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_in>.size))
                    }
                }
            }
            // The last client hangs, which shows that the queue is full.
            var last = pollfd(fd: clients[15], events: Int16(POLLOUT), revents: 0)
            try #require(poll(&last, 1, 0) == 0)
        }

        deinit { for client in clients { close(client) } }
    }
#endif
