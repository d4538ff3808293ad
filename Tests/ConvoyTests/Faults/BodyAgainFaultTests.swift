// Tests bodies that are received a second time, for every destination, and those that cannot be decoded.
import Convoy
import Foundation
import Testing

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct BodyAgainFaultTests {
        private static let cuts = [ServerAct.cutBody, .resetBody, .cutChunks]

        private func server(_ ground: ConformingTransport, _ fault: ServerAct, times: Int = 2) throws -> ScriptedServer
        {
            try ScriptedServer(ground, Array(repeating: fault, count: times) + [.answer(200, body: "0123456789")])
        }

        @Test(arguments: ConformingTransport.all, cuts)
        func memoryHoldsTheWholeBodyOnce(ground: ConformingTransport, fault: ServerAct) async throws {
            let server = try server(ground, fault)
            // The limit is ten bytes. Bytes that were kept from a failed attempt would exceed it.
            let request = Request<String>.get(server.url()).maxBodyBytes(10)
            let response = try await server.response(to: request)
            #expect(response.value == "0123456789")
            #expect(response.transfer.download.completedBytes == 10)
            #expect(response.transfer.download.totalBytes == 10)
            #expect(server.seen.count == 3)
            // Each attempt writes to its own stream.
            let streams = try self.server(ground, fault)
            let written = Request<Data>.get(streams.url()).written { OutputStream(toMemory: ()) }
            #expect(try await streams.response(to: written).value == Data("0123456789".utf8))
        }

        /// The target is complete or unchanged.
        @Test(arguments: ConformingTransport.all, cuts)
        func fileHoldsTheWholeBodyOnce(ground: ConformingTransport, fault: ServerAct) async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            try Data("before".utf8).write(to: file)
            let reads = EventLog<String?>()
            let server = try ScriptedServer(ground, [fault, fault, .answer(200, body: "0123456789")]) {
                $0.jitter = {
                    reads.record(try? String(contentsOf: file, encoding: .utf8))
                    return 0
                }
            }
            let response = try await server.response(to: Request<Data>.get(server.url()).saved(to: file))
            #expect(response.value == file)
            #expect(reads.events == ["before", "before"])
            #expect(try String(contentsOf: file, encoding: .utf8) == "0123456789")
            #expect(try directory.entries == ["target"])
            let lasting = try ScriptedServer(ground, [fault])
            let other = directory.file("other")
            let error = try await lasting.error(of: Request<Data>.get(lasting.url()).saved(to: other))
            #expect(error.code == .connectionLost && error.attempts.count == 4)
            #expect(try directory.entries == ["target"])
        }

        /// The body starts over before the caller has read from it.
        @Test(arguments: ConformingTransport.all, [ServerAct.closes, .resets, .answer(503)])
        func chunksNobodyHasReadBeginAgain(ground: ConformingTransport, fault: ServerAct) async throws {
            let server = try server(ground, fault)
            var body = Data()
            for try await chunk in server.manager.chunks(of: Request<Data>.get(server.url())) { body += chunk }
            #expect(body == Data("0123456789".utf8))
            #expect(server.seen.count == 3)
        }

        /// Bytes that the caller has read cannot be withdrawn, so the request fails.
        @Test(arguments: ConformingTransport.all, [Reply.Step.close, .reset])
        func chunksThatHaveBeenReadDoNotBeginAgain(ground: ConformingTransport, end: Reply.Step) async throws {
            for isChunked in [false, true] {
                let gate = Gate()
                let whole =
                    isChunked ? Reply.chunked([Data("half".utf8), Data("more".utf8)]) : .status(200, body: "half5678")
                let moment = Reply.Moment.responseBody(afterBytes: isChunked ? 9 : 4)
                let cut = ServerAct(whole.performing(.wait(gate), at: moment).performing(end, at: moment))
                let server = try ScriptedServer(ground, [cut, .answer(200)])
                var iterator = server.manager.chunks(of: Request<Data>.get(server.url())).makeAsyncIterator()
                #expect(try await iterator.next() == Data("half".utf8))
                gate.open()
                let error = await #expect(throws: RequestError.self) { _ = try await iterator.next() }
                #expect(error?.code == .connectionLost)
                #expect(server.seen.count == 1)
            }
        }

        /// A stalled head or body is abandoned after the idle timeout and fetched again.
        @Test(
            arguments: ConformingTransport.all,
            [
                ServerAct(
                    "head", Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\nX-".utf8)), .wait(Gate())])),
                ServerAct("body", .status(200, body: "half567890").stalling(afterBodyBytes: 0), statusCode: 200),
                ServerAct("half", .status(200, body: "half567890").stalling(afterBodyBytes: 4), statusCode: 200),
            ])
        func whatStallsIsFetchedAgain(ground: ConformingTransport, stall: ServerAct) async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let server = try ScriptedServer(ground, [stall, .answer(200, body: "0123456789")])
            let request = Request<Data>.get(server.url()).impatientAtFirst().saved(to: file)
            let response = try await server.response(to: request)
            #expect(response.attempts.map(\.failure) == [.timedOut, nil])
            #expect(response.attempts.map(\.statusCode) == [stall.statusCode, 200])
            #expect(try String(contentsOf: file, encoding: .utf8) == "0123456789")
            #expect(try directory.entries == ["target"])
            #expect(server.seen.count == 2)
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct UndecodableFaultTests {
        private struct User: Decodable, Sendable {
            var id: Int
        }

        /// The raw body is kept, and the request is sent only once, because a retry would not help.
        @Test(
            arguments: ConformingTransport.all,
            [
                (Data(), 200), (Data("{\"id\":\"1\"}".utf8), 200), (Data("{\"id\":\"\u{FC}".utf8).dropLast(), 200),
                (Data("{\"id\":2}".utf8), 503),
            ] as [(Data, Int)])
        func undecodableBodyIsNotFetchedAgain(
            ground: ConformingTransport, first: (body: Data, statusCode: Int)
        ) async throws {
            let fields = [("Content-Type", "application/json; charset=utf-8")]
            let reply = Reply.status(first.statusCode, headerFields: fields, body: first.body)
            let server = try ScriptedServer(ground, [ServerAct(reply), .cutBody, .answer(200, body: "{\"id\":2}")]) {
                $0.retries.errorCodes.insert(.decodingFailed)
            }
            // The last body is decoded after a retry.
            guard first.statusCode == 200 else {
                return #expect(try await server.response(to: Request<User>.get(server.url())).value.id == 2)
            }
            let error = try await server.error(of: Request<User>.get(server.url()))
            error.expect(.decodingFailed, status: 200)
            #expect(error.body == first.body)
            #expect(error.attempts.map(\.failure) == [.decodingFailed])
            #expect(server.seen.count == 1)
        }
    }
}

extension Request {
    /// Abandons the first attempt after one second without data.
    ///
    /// A later attempt may be without data for 60 seconds.
    func impatientAtFirst() -> Self {
        idleTimeout(.seconds(1)).intercepted(
            by: Interceptor(adapting: { request, attempt in
                var request = request
                if attempt.number > 1 { request.idleTimeout = .seconds(60) }
                return request
            }))
    }
}
