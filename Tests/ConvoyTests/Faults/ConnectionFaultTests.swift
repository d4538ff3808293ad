// Tests failed connections, and connections that end before a response. PoolFaultTests has reused connections.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct ConnectionFaultTests {
        @Test(arguments: [HTTPMethod.get, .put, .post])
        func refusedConnectionIsConnectionFailed(method: HTTPMethod) async throws {
            let closed = try LoopbackPort.refusing()
            let error = try await Sending(Request<Data>(method: method, url: "http://127.0.0.1:\(closed.port)/"))
                .error()
            #expect(error.code == .connectionFailed)
            #expect(error.isRetryable)
            #expect(error.response == nil)
            #expect(error.description.isOneLine)
            #expect(error.request == "\(method.rawValue) http://127.0.0.1:\(closed.port)/")
            withExtendedLifetime(closed) {}
        }

        @Test func blackHoleIsConnectionFailedAfterTheConnectTimeout() async throws {
            let hole = try BlackHole()
            let transport = try CurlTransport.alone { $0.connectTimeout = .milliseconds(200) }
            let error = try await Sending(Request<Data>.get("http://127.0.0.1:\(hole.port)/"), transport).error()
            #expect(error.code == .connectionFailed, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response == nil)
            let server = try TestServer(always: Reply.status(200).stalling())
            defer { server.shutDown() }
            let idle = try await Sending(server.get().idleTimeout(.milliseconds(200)), transport).error()
            #expect(idle.code == .timedOut)
            #expect(idle.message != error.message)
            withExtendedLifetime(hole) {}
        }

        /// The attempt timeout includes the time to connect.
        @Test func blackHoleTimesOutAfterTheAttemptTimeout() async throws {
            let hole = try BlackHole()
            let request = Request<Data>.get("http://127.0.0.1:\(hole.port)/").attemptTimeout(.milliseconds(200))
            let error = try await Sending(request).error()
            #expect(error.code == .timedOut, "\(error)")
            #expect(error.isRetryable)
            withExtendedLifetime(hole) {}
        }

        @Test func connectingCanBeCancelled() async throws {
            let hole = try BlackHole()
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
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

        /// The domain `.invalid` never has addresses: RFC 6761, section 6.4.
        @Test func unknownHostIsConnectionFailed() async throws {
            let error = try await Sending(Request<Data>.get("http://convoy.invalid/")).error()
            #expect(error.code == .connectionFailed, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response == nil)
            #expect(error.message.contains("convoy.invalid") || error.request.contains("convoy.invalid"))
        }

        /// The origin is reached by its address, and by a name whose IPv4 address refuses connections.
        @Test(arguments: ["[::1]", "localhost"])
        func originWithIPv6OnlyIsReached(host: String) async throws {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
            // Without IPv6 this test is skipped.
            guard let server = try IPv6OnlyServer(answering: answer) else { return }
            let request = Request<String>.get("http://\(host):\(server.port)/")
            #expect(try await Sending(request).response().value == "hello")
            withExtendedLifetime(server) {}
        }

        @Test(
            arguments: [
                FaultVariant("FIN", Reply.status(200, body: "hello").disconnecting(afterBytes: 0)),
                FaultVariant("RST", Reply.status(200, body: "hello").resetting(afterBytes: 0)),
            ], [HTTPMethod.get, .put, .post])
        func endBeforeTheStatusIsConnectionLost(variant: FaultVariant, method: HTTPMethod) async throws {
            let server = try TestServer(always: variant.reply)
            defer { server.shutDown() }
            let transport = try CurlTransport.alone()
            let error = try await Sending(Request<Data>(method: method, url: server.url()), transport).error()
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response == nil)
            // The transport does not repeat a request that fails on a new connection. The manager's retry policy
            // decides.
            #expect(server.requestCount == 1)
        }
    }
#endif
