#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Tests bodies from sequences with libcurl only, because URLSession on Linux cannot wait for them.
    @Suite(.timeLimit(.minutes(5))) struct SequenceBodyTests {
        private struct Failure: Error, Equatable {}

        @Test(arguments: [0, 1, 40_000, 3_000_000], [nil, 5_000_000] as [Int64?])
        func aSequenceThatThrowsFailsTheRequest(_ byteCount: Int, _ length: Int64?) async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let chunks = Chunks.of(Data(count: byteCount)) { throw Failure() }
            let error = try await Sending(Request<Data>.put(server.url()).body(chunks, byteCount: length)).error()
            #expect(error.code == .bodyUnreadable)
            #expect(error.underlying as? Failure == Failure())
            try await server.expectNothingWhole()
        }

        /// The sequence throws after all declared bytes.
        @Test func aSequenceThatThrowsAtItsEndFailsTheRequest() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let chunks = Chunks.of(Data(count: 20_000)) { throw Failure() }
            let error = try await Sending(Request<Data>.put(server.url()).body(chunks, byteCount: 20_000)).error()
            #expect(error.code == .bodyUnreadable)
            try await server.expectNothingWhole()
        }

        /// The behaviour of an iterator after its end is undefined.
        @Test(arguments: [nil, 30_000] as [Int64?])
        func aSequenceIsNotReadAfterItsEnd(_ length: Int64?) async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let ends = EventLog<Void>()
            let chunks = Chunks.of(Data(count: 30_000)) {
                ends.record(())
                return ends.count == 1 ? nil : Data("more".utf8)
            }
            _ = try await Sending(Request<Data>.put(server.url()).body(chunks, byteCount: length)).response()
            #expect(try await server.takeRequest().bodyByteCount == 30_000)
            #expect(ends.count == 1)
        }

        // MARK: Waiting

        @Test func chunksGoOutAsTheyCome() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let gates = (0..<3).map { _ in Gate() }
            server.enqueue(
                gates.enumerated().reduce(Reply.status(200)) { reply, next in
                    reply.performing(.wait(next.element), at: .requestBody(afterBytes: Int64(next.offset + 1)))
                })
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let sending = Sending(Request<Data>.put(server.url()).body(chunks))
            for (index, gate) in gates.enumerated() {
                source.yield(Data([UInt8(index)]))
                try await gate.reached()
                gate.open()
            }
            source.finish()
            _ = try await sending.response()
            #expect(try await server.takeRequest().body == Data([0, 1, 2]))
        }

        /// No code of the caller runs on the engine's thread, which serves all requests.
        @Test(arguments: [true, false])
        func cancellingEndsTheTaskThatWaits(_ isCancelledByTheCaller: Bool) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let gate = Gate()
            server.enqueue(
                Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 3))
                    .performing(.reset, at: .requestBody(afterBytes: 3)))
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let ended = EventLog<String>()
            source.onTermination = { ended.record("\($0) on \(currentThreadName())") }
            let waits = EventLog<Void>()
            let body = Chunks {
                let isFirst = Locked(true)
                return {
                    let isFirst = isFirst.withLock { isFirst in
                        defer { isFirst = false }
                        return isFirst
                    }
                    if isFirst { return Data("abc".utf8) }
                    waits.record(())
                    for await chunk in chunks { return chunk }
                    return nil
                }
            }
            let sending = Sending(Request<Data>.put(server.url()).body(body))
            try await gate.reached()
            // The stream is notified of its end only while it waits for a chunk.
            await waits.wait()
            if isCancelledByTheCaller { sending.operation.cancel() } else { gate.open() }
            let code = try await sending.error().code
            #expect(code == (isCancelledByTheCaller ? .cancelled : .connectionLost))
            let how = await ended.wait()
            #expect(how.count == 1 && how[0].hasPrefix("cancelled"))
            #expect(!how.joined().contains("convoy.curl"))
            try await server.expectNothingWhole()
        }

        @Test func sequenceThatNeverComesTimesOut() async throws {
            let server = try TestServer(always: .status(200))
            defer { server.shutDown() }
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let request = Request<Data>.put(server.url()).body(chunks).idleTimeout(.milliseconds(200))
            #expect(try await Sending(request).error().code == .timedOut)
            source.finish()
            try await server.expectNothingWhole()
        }

        /// The server stops reading the upload.
        ///
        /// 300 other requests then give the client time to ask the sequence for more chunks.
        @Test func aSequenceIsReadOnlyAsFastAsTheNetwork() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let gate = Gate()
            server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
            server.respond { _ in .status(200) }
            let chunk = Data(repeating: 5, count: 64 << 10)
            let asked = EventLog<Int>()
            let count = 700
            let chunks = Chunks {
                let given = Locked(0)
                return {
                    let number = given.withLock { given in
                        given += 1
                        return given
                    }
                    asked.record(number)
                    return number <= count ? chunk : nil
                }
            }
            let transport = try CurlTransport.alone()
            let sending = Sending(Request<Data>.put(server.url()).body(chunks), transport)
            try await gate.reached()
            for _ in 0..<300 { _ = try await Sending(server.get("/other"), transport).response() }
            // The system's buffers between client and server hold less than half of the body.
            #expect(asked.count < count / 2, "\(asked.count) of \(count)")
            gate.open()
            #expect(try await sending.response().transfer.upload.completedBytes == Int64(count * chunk.count))
            #expect(asked.count == count + 1)
            let upload = server.recordedRequests.first { $0.method == "PUT" }
            #expect(upload?.bodyByteCount == Int64(count * chunk.count))
        }

        /// The server responds and continues to read.
        ///
        /// The remaining chunks must not become part of the next request.
        @Test(arguments: [nil, 6] as [Int64?])
        func answerBeforeTheLastChunkEndsTheConnection(_ length: Int64?) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let early = Data("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly".utf8)
            server.enqueue(
                Reply(steps: []).performing(.write(early), at: .requestBody(afterBytes: 3)))
            server.respond { .status(200, body: $0.path) }
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            source.yield(Data("abc".utf8))
            let transport = try CurlTransport.alone()
            let received = EventLog<Int64>()
            let sending = Sending(Request<Data>.put(server.url("/put")).body(chunks, byteCount: length), transport) {
                $0.onProgress { if $0.download.completedBytes == 5 { received.record(5) } }
            }
            await received.wait()
            source.yield(Data("def".utf8))
            source.finish()
            #expect(try await sending.response().value == Data("early".utf8))
            let next = try await Sending(Request<String>.get(server.url("/next")), transport).response()
            #expect(next.value == "/next")
            try await server.requestsReceived(count: 2)
            #expect(server.recordedRequests.map(\.connectionNumber).sorted() == [1, 2])
            #expect(server.rejectedRequestCount == 0)
        }

        // MARK: Threads

        @Test func streamIsReadAndClosedOnAThreadOfItsOwn() async throws {
            let calls = EventLog<String>()
            for reply in [Reply.status(200), Reply.status(200).performing(.reset, at: .requestBody(afterBytes: 1))] {
                let server = try TestServer()
                defer { server.shutDown() }
                server.enqueue(reply)
                let before = calls.events.count { $0.hasPrefix("close") }
                let request = Request<Data>.put(server.url()).body {
                    calls.record("make on \(currentThreadName())")
                    return ScriptedInput(Data(count: 2_000_000), calls: calls)
                }
                _ = try await Sending(request).result()
                await look { calls.events.count { $0.hasPrefix("close") } > before }
                #expect(calls.events.count { $0.hasPrefix("close") } == before + 1)
            }
            #expect(calls.events.contains { $0.hasPrefix("make") && !$0.isEmpty })
            #expect(!calls.events.contains { $0.contains("convoy.curl") })
        }
    }
#endif
