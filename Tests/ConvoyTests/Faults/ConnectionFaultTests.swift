// Tests failed connections, and connections that end before a response. PoolFaultTests has reused connections.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct ConnectionFaultTests {
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
    }
#endif
