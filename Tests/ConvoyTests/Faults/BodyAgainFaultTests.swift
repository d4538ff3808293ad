// Tests bodies that are received a second time, for every destination, and those that cannot be decoded.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

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
        }

        @Test(arguments: ConformingTransport.all, cuts)
        func fileThatNeverComesWholeIsNotThere(ground: ConformingTransport, fault: ServerAct) async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let server = try ScriptedServer(ground, [fault])
            let error = try await server.error(of: Request<Data>.get(server.url()).saved(to: file))
            #expect(error.code == .connectionLost)
            #expect(error.attempts.count == 4)
            #expect(try directory.entries == [])
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

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct UndecodableFaultTests {
        private struct User: Decodable, Sendable {
            var id: Int
        }

        private static func act(_ body: Data, _ contentType: String) -> ServerAct {
            let fields = contentType.isEmpty ? [] : [("Content-Type", contentType)]
            return ServerAct(.status(200, headerFields: fields, body: body))
        }

        /// The request is sent only once, because a retry would not help.
        @Test(
            arguments: ConformingTransport.all,
            [
                (Data([0x68, 0xFC]), ""), (Data([0x68, 0xFC]), "text/plain; charset=utf-8"),
                (Data([0xEF, 0xBB, 0xBF, 0xFF]), ""), (Data([0xFC]), "text/plain; charset=klingon"),
                (Data(), "application/json"), (Data("{\"id\":\"1\"}".utf8), "application/json"),
                (Data("{\"id\":1} x".utf8), "application/json"),
            ])
        func undecodableBodyIsNotFetchedAgain(ground: ConformingTransport, answer: (body: Data, type: String))
            async throws
        {
            let server = try ScriptedServer(ground, [Self.act(answer.body, answer.type)]) { configuration in
                configuration.retries.errorCodes.insert(.decodingFailed)
            }
            let error =
                try await answer.type.hasSuffix("json")
                ? server.error(of: Request<User>.get(server.url()))
                : server.error(of: Request<String>.get(server.url()))
            #expect(error.code == .decodingFailed, "\(error)")
            #expect(error.body == answer.body)
            #expect(error.response?.statusCode == 200)
            #expect(!error.isRetryable)
            #expect(error.description.isOneLine)
            #expect(error.attempts.map(\.failure) == [.decodingFailed])
            #expect(server.seen.count == 1)
        }

        /// The byte order mark takes precedence over the charset.
        @Test(
            arguments: ConformingTransport.all,
            [
                (Data([0xFF, 0xFE, 0x68, 0, 0xFC, 0]), "", "hü"),
                (Data([0xEF, 0xBB, 0xBF, 0x68]), "text/plain; charset=iso-8859-1", "h"),
                (Data([0x68, 0xFC]), "Text/Plain; Charset=ISO-8859-1", "hü"),
            ])
        func textIsDecoded(ground: ConformingTransport, answer: (body: Data, type: String, text: String)) async throws {
            let server = try ScriptedServer(ground, [Self.act(answer.body, answer.type)])
            #expect(try await server.response(to: Request<String>.get(server.url())).value == answer.text)
        }

        @Test(arguments: ConformingTransport.all)
        func theLastBodyIsDecodedAfterARetry(ground: ConformingTransport) async throws {
            let server = try ScriptedServer(
                ground, [.answer(503, body: "{\"id\":1}"), .cutBody, .answer(200, body: "{\"id\":2}")])
            #expect(try await server.response(to: Request<User>.get(server.url())).value.id == 2)
        }
    }
}
