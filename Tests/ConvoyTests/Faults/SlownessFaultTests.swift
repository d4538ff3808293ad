// Tests slow servers and readers.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    /// Tests that depend on speed have their own transports, because other tests keep the shared transport busy.
    @Suite(.timeLimit(.minutes(5))) struct SlownessFaultTests {
        private static let head = Data("HTTP/1.1 200 OK\r\n".utf8)

        private static let interim = Reply(steps: [
            .pace(bytesPerSecond: 1_000, pieceBytes: 25),
            .writeRepeatedly(Data("HTTP/1.1 102 Processing\r\n\r\n".utf8), count: 1 << 30),
        ])

        /// Where data keeps arriving, the attempt timeout ends the request, not the idle timeout.
        @Test(arguments: FaultsWithRepeats.DeadlineFaultTests.endless + [ServerAct("interim responses", interim)])
        func whatNeverEndsTimesOut(fault: ServerAct) async throws {
            let error = try await Fault.error(of: fault.reply, over: .alone()) {
                $0.idleTimeout(.seconds(20)).attemptTimeout(fault.statusCode == nil ? .milliseconds(500) : .seconds(2))
            }
            error.expect(.timedOut)
            // On a busy machine the head may arrive too late.
            #expect([fault.statusCode, nil].contains(error.response?.statusCode))
        }

        @Test(arguments: ["", "HTTP", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX-", "HTTP/1.1 103 A\r\n\r\n"])
        func headerThatStallsTimesOut(bytes: String) async throws {
            let reply = Reply(steps: [.write(Data(bytes.utf8)), .wait(Gate())])
            let error = try await Fault.error(of: reply) { $0.idleTimeout(.milliseconds(300)) }
            error.expect(.timedOut, status: 0)
        }

        /// The idle time of a request with a body ends before twice that time, which the attempt may take.
        @Test func aSmallBodyDoesNotExtendTheIdleTimeout() async throws {
            let server = try TestServer()
            server.respond { _ in Reply(steps: [.wait(Gate())]) }
            let post = Request<Data>.post(server.url()).body(Data("x".utf8)).idleTimeout(.seconds(4))
            // On a busy machine both times may pass before the transport's thread runs, so there are three tries.
            var error = try await Sending(post.attemptTimeout(.seconds(7.9))).error()
            for _ in 0..<2 where !error.message.contains("idle timeout") {
                error = try await Sending(post.attemptTimeout(.seconds(7.9))).error()
            }
            #expect(error.code == .timedOut && error.message.contains("idle timeout"), "\(error)")
        }

        /// The server reads nothing of the request's body.
        @Test func uploadThatStallsTimesOut() async throws {
            let server = try TestServer()
            let gate = Gate()
            server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1_000)))
            let put = Request<Data>.put(server.url()).body(Data(count: 12_000_000)).idleTimeout(.milliseconds(500))
            let error = try await Sending(put).error()
            #expect(error.code == .timedOut, "\(error)")
            // The end of the connection is queued behind bytes that the server has not read.
            gate.open()
            #expect(try await server.takeRequest().isBodyComplete == false)
            try await server.connectionsClosed()
        }

        /// The idle time counts from the last byte, not from the first.
        @Test func bodyThatIsSlowButNotIdlePasses() async throws {
            let reply = Reply.generated(byteCount: 4_000).dripping(bytesPerSecond: 1_000, pieceBytes: 20)
            let response = try await Fault.response(to: reply, over: .alone()) { $0.idleTimeout(.seconds(3)) }
            #expect(response.value == Reply.pattern(range: 0..<4_000))
        }

        private static let pieceCount = 200

        /// A server that sends 200 MiB at any speed.
        ///
        /// A second transfer of the same size shows that enough time has passed to complete the first one.
        private static func server() throws -> TestServer {
            let server = try TestServer(recording: .none)
            server.respond { _ in
                let fields = "Content-Length: \(pieceCount << 20)\r\n\r\n"
                return Reply(steps: [
                    .write(head + Data(fields.utf8)), .writeRepeatedly(Data(count: 1 << 20), count: pieceCount),
                ])
            }
            return server
        }

        /// Receives the 200 MiB in another transfer, which takes as long as a complete transfer.
        private static func passTime(_ server: TestServer, _ transport: CurlTransport) async throws {
            let other = try await Sending(server.get("/fast").ignoringBody(), transport).response()
            #expect(other.transfer.download.completedBytes == Int64(pieceCount << 20))
        }

        /// Waits until the first 64 KiB of the body have arrived.
        private static func begun(_ operation: AnyRequestOperation) async {
            await operation.received(bytes: 64 << 10).wait()
        }

        /// Starts a body without a reader, and returns when the transport accepts no more bytes.
        private static func unreadChunks(of server: TestServer) async throws -> ResponseChunks {
            let transport = try CurlTransport.alone()
            let manager = RequestManager(configuration: .init(transport: .custom(transport)))
            let chunks = manager.chunks(of: server.get("/slow"))
            await begun(chunks.operation)
            try await passTime(server, transport)
            #expect(chunks.operation.progress.download.completedBytes < 16 << 20)
            return chunks
        }

        @Test(arguments: [true, false]) func readerWhoDoesNotReadIsSentNoMoreAndCanCancel(reads: Bool) async throws {
            let server = try Self.server()
            let chunks = try await Self.unreadChunks(of: server)
            if reads {
                var total = 0
                for try await chunk in chunks { total += chunk.count }
                return #expect(total == Self.pieceCount << 20)
            }
            chunks.operation.cancel()
            await #expect(throws: RequestError.self) { for try await _ in chunks {} }
            #expect(chunks.operation.error?.code == .cancelled)
            try await server.connectionClosed(number: 1)
        }

        @Test func streamThatBlocksIsSentNoMore() async throws {
            let server = try Self.server()
            let transport = try CurlTransport.alone()
            let (gate, written) = (DispatchSemaphore(value: 0), Locked(0))
            let request = server.get("/slow").written {
                ScriptedStream.make(gate: gate) { count in written.withLock { $0 += count } }
            }
            let slow = Sending(request, transport)
            await Self.begun(slow.operation)
            try await Self.passTime(server, transport)
            #expect(slow.operation.progress.download.completedBytes < 16 << 20)
            #expect(slow.outcomes.count == 0)
            gate.signal()
            _ = try await slow.response()
            #expect(written.withLock { $0 } == Self.pieceCount << 20)
        }
    }
#endif
