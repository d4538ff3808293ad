// Tests failed connections, and reused connections that the server has closed or closes.
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

    @Suite(.timeLimit(.minutes(5))) struct PoolFaultTests {
        @Test(arguments: [HTTPMethod.get, .put, .post])
        func connectionClosedBetweenTwoRequestsIsNotUsed(method: HTTPMethod) async throws {
            let server = try TestServer(always: .status(200, body: "ok"))
            defer { server.shutDown() }
            let transport = try CurlTransport.alone()
            for number in 1...5 {
                let request = Request<String>(method: method, url: server.url("/\(number)"))
                #expect(try await Sending(request, transport).response().value == "ok")
                let seen = try await server.takeRequest()
                #expect(seen.connectionNumber == number)
                #expect(seen.target == "/\(number)")
                server.disconnectAll()
                try await server.connectionsClosed()
            }
            #expect(server.requestCount == 5)
        }

        /// The end of the connection races with the next request.
        @Test func aConnectionClosedAfterTheResponseHarmsNoGet() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
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
            defer { server.shutDown() }
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
            defer { server.shutDown() }
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
        let port: Int
        private let descriptors: [Int32]

        init() throws {
            let (listener, port) = try LoopbackSocket.bound()
            self.port = port
            // One connection fills the queue of length zero. The last client hangs, which shows that the queue is
            // full.
            let clients = try (0..<4).map { _ in try LoopbackSocket.unbound(AF_INET) }
            descriptors = [listener] + clients
            try #require(listen(listener, 0) == 0)
            for client in clients {
                _ = fcntl(client, F_SETFL, fcntl(client, F_GETFL) | O_NONBLOCK)
                _ = LoopbackSocket.withAddress(port: port) { connect(client, $0, $1) }
            }
            var last = pollfd(fd: clients[3], events: Int16(POLLOUT), revents: 0)
            try #require(poll(&last, 1, 0) == 0)
        }

        deinit { for descriptor in descriptors { close(descriptor) } }
    }

    /// A server on [::1] that sends one response to each connection.
    ///
    /// The same port of 127.0.0.1 refuses connections.
    final class IPv6OnlyServer: Sendable {
        let port: Int
        private let listener: Int32
        private let refusing: Int32

        /// Returns nil without IPv6.
        init?(answering answer: String) throws {
            (refusing, port) = try LoopbackSocket.bound()
            guard let listener = LoopbackSocket.listeningOnIPv6(port: port) else {
                close(refusing)
                return nil
            }
            self.listener = listener
            Thread.detachNewThread {
                while true {
                    let connection = accept(listener, nil, nil)
                    guard connection >= 0 else { break }
                    var request = Data()
                    var buffer = [UInt8](repeating: 0, count: 4_096)
                    while request.range(of: Data("\r\n\r\n".utf8)) == nil {
                        let count = recv(connection, &buffer, buffer.count, 0)
                        guard count > 0 else { break }
                        request.append(contentsOf: buffer[..<count])
                    }
                    _ = answer.withCString { send(connection, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
                    close(connection)
                }
                close(listener)
            }
        }

        deinit {
            // Wakes the accepting thread, which closes the listener. Closing it here could let another socket reuse
            // the descriptor.
            shutdown(listener, Int32(SHUT_RDWR))
            close(refusing)
        }
    }

    enum LoopbackSocket {
        static func unbound(_ family: Int32) throws -> Int32 {
            let descriptor = socket(family, Int32(SOCK_STREAM.rawValue), 0)
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            return descriptor
        }

        /// A bound socket on a free port of 127.0.0.1.
        static func bound() throws -> (descriptor: Int32, port: Int) {
            let descriptor = try unbound(AF_INET)
            try #require(withAddress(port: 0) { bind(descriptor, $0, $1) } == 0)
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isNamed = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
            }
            try #require(isNamed)
            return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
        }

        static func listeningOnIPv6(port: Int) -> Int32? {
            guard let descriptor = try? unbound(AF_INET6) else { return nil }
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = UInt16(port).bigEndian
            _ = inet_pton(AF_INET6, "::1", &address.sin6_addr)
            let length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let isBound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) == 0 }
            }
            guard isBound, listen(descriptor, 16) == 0 else {
                close(descriptor)
                return nil
            }
            return descriptor
        }

        static func withAddress(port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        }
    }
#endif
