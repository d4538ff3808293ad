import Foundation
import Testing

@testable import Convoy

@Suite struct MemorySinkTests {
    private func send(_ pieces: [Int], _ limit: Int64, announced: Int64? = nil) async throws
        -> RequestOperation<Data>.Result
    {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: announced))
            for count in pieces { exchange.send(Data(repeating: 7, count: count)) }
            exchange.finish()
        }
        return try await Sending(.stub("a").maxBodyBytes(limit), over: server.transport).result()
    }

    @Test(arguments: [[], [0], [10], [5, 5], [0, 10, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [9]])
    func bodyUpToTheLimitIsWhole(pieces: [Int]) async throws {
        let body = try await send(pieces, 10).get().value
        #expect(body == Data(repeating: 7, count: pieces.reduce(0, +)))
    }

    @Test(arguments: [[11], [10, 1], [5, 5, 1], [1_000_000]])
    func oneByteMoreEndsTheRequest(pieces: [Int]) async throws {
        let result = try await send(pieces, 10)
        #expect(result.code == .bodyTooLarge)
        guard case .failure(let error) = result else { return }
        #expect(error.message.contains("the request allows 10 bytes"))
        #expect(error.response?.statusCode == 200)
        #expect(!error.isRetryable)
    }

    @Test func limitOfZeroAcceptsAnEmptyBodyOnly() async throws {
        #expect(try await send([], 0).get().value.isEmpty)
        #expect(try await send([1], 0).code == .bodyTooLarge)
    }

    @Test(
        arguments: [(10, nil), (11, RequestError.Code.bodyTooLarge), (Int64.max, .bodyTooLarge)]
            as [(Int64, RequestError.Code?)])
    func announcedLengthIsCheckedBeforeAByteArrives(announced: Int64, code: RequestError.Code?) async throws {
        #expect(try await send([5], 10, announced: announced).code == code)
    }

    @Test func transferIsCancelledAtTheLimit() async throws {
        let server = StubServer.held()
        let sending = Sending(.stub("a").maxBodyBytes(10), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data(count: 11))
        #expect(try await sending.error().code == .bodyTooLarge)
        // The sink drops later bytes.
        exchange.send(Data(count: 11))
        exchange.finish()
        #expect(sending.operation.progress.download.completedBytes <= 10)
        #expect(sending.outcomes.count == 1)
    }

    // MARK: A response that arrives again

    @Test func responseThatArrivesAgainStartsTheBodyAfresh() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, headerFields: ["A": "first"], expectedBytes: 26))
            exchange.send(Data("first body, and more of it".utf8))
            exchange.respond(ResponseHead(statusCode: 200, headerFields: ["A": "second"], expectedBytes: 6))
            exchange.send(Data("sec".utf8))
            exchange.send(Data("ond".utf8))
            exchange.finish()
        }
        // The limit applies to each body separately. Both bodies together exceed the limit.
        let whole = try await Sending(.stub("a").maxBodyBytes(26), over: server.transport).response()
        #expect(whole.value == Data("second".utf8))
        #expect(whole.headerFields["A"] == "second")
        #expect(whole.transfer.download.completedBytes == 6)
        #expect(whole.transfer.download.totalBytes == 6)
    }

    @Test func anInterimResponseIsNotTheResponse() async throws {
        let server = StubServer { exchange in
            for statusCode in [100, 103, 199] {
                exchange.respond(ResponseHead(statusCode: statusCode, expectedBytes: 1 << 40))
            }
            exchange.answer(200, body: Data("x".utf8))
        }
        // `.any` accepts every status. If a 1xx counted as the response, its declared length would exceed the limit.
        let response = try await Sending(.stub("a").acceptableStatusCodes(.any), over: server.transport).response()
        #expect(response.statusCode == 200)
        #expect(response.value == Data("x".utf8))
    }

    @Test func refusedThenAcceptedAnswerIsTheAcceptedOne() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 401))
            exchange.send(Data("who are you?".utf8))
            exchange.answer(200, body: Data("hello".utf8))
        }
        #expect(try await Sending(.stub("a"), over: server.transport).response().value == Data("hello".utf8))
    }

    @Test func acceptedThenRefusedAnswerIsRefused() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("hel".utf8))
            exchange.answer(500, body: Data("sorry".utf8))
        }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("sorry".utf8))
    }

    @Test func bytesBeforeAHeadAreDropped() async throws {
        let server = StubServer { exchange in
            exchange.send(Data("early".utf8))
            exchange.answer(200, body: Data("x".utf8))
        }
        #expect(try await Sending(.stub("a"), over: server.transport).response().value == Data("x".utf8))
    }
}
