import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct ResponseChunksTests {
    private func begin(
        pausesInPlace: Bool = true
    ) async throws -> (chunks: ResponseChunks, exchange: StubExchange, server: StubServer) {
        let server = StubServer.held(pausesInPlace: pausesInPlace)
        let chunks = server.manager().chunks(of: .stub("a"))
        return (chunks, try #require(await server.exchanges.wait().first), server)
    }

    @Test func readerThatWaitsGetsEachChunkAsItComes() async throws {
        let (chunks, exchange, _) = try await begin()
        let read = EventLog<String?>()
        let reader = Task {
            var iterator = chunks.makeAsyncIterator()
            for _ in 0..<7 { read.record(try await iterator.next().map { String(decoding: $0, as: UTF8.self) }) }
        }
        exchange.respond(ResponseHead(statusCode: 200))
        for number in 1...5 {
            exchange.send(Data("\(number)".utf8))
            #expect(await read.wait(count: number).last == "\(number)")
        }
        exchange.send(Data())
        exchange.finish()
        try await reader.value
        #expect(read.events == ["1", "2", "3", "4", "5", nil, nil])
    }

    @Test(arguments: [("http://stub/", RequestError.Code.unacceptableStatus), ("ftp://stub/", .invalidRequest)])
    func requestThatFailsHasNoChunk(url: String, code: RequestError.Code) async throws {
        let server = StubServer { $0.answer(404, body: Data("none".utf8)) }
        var iterator = server.manager().chunks(of: .get(url)).makeAsyncIterator()
        let error = await #expect(throws: RequestError.self) { try await iterator.next() }
        #expect(error?.code == code)
        #expect(error?.body == (code == .invalidRequest ? nil : Data("none".utf8)))
    }

    @Test func droppingTheSequenceUnreadCancels() async throws {
        let operation = StubServer.held().manager().chunks(of: .stub("a")).operation
        #expect(await operation.resultCode() == .cancelled)
    }

    @Test func backlogOverTheLimitEndsTheRequestWhereNothingCanPause() async throws {
        let (chunks, exchange, _) = try await begin(pausesInPlace: false)
        exchange.respond(ResponseHead(statusCode: 200))
        for _ in 0..<2 { exchange.send(Data(count: 32 << 20)) }
        #expect(chunks.operation.result == nil)
        exchange.send(Data(count: 1))
        #expect(await chunks.operation.resultCode() == .bodyTooLarge)
        #expect(!exchange.isSuspended)
        var received = 0
        let error = await #expect(throws: RequestError.self) {
            for try await chunk in chunks { received += chunk.count }
        }
        #expect(error?.code == .bodyTooLarge)
        #expect(received >= 64 << 20)
    }

    @Test func aTransportThatCanPausesForASlowReader() async throws {
        let (chunks, exchange, _) = try await begin()
        let control = chunks.operation.scheduler.taskControl
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data(count: (1 << 20) - 1))
        control.sync {}
        #expect(!exchange.isSuspended)
        exchange.send(Data(count: 1))
        control.sync {}
        #expect(exchange.isSuspended)
        #expect(!chunks.operation.isSuspended)
        var iterator = chunks.makeAsyncIterator()
        #expect(try await iterator.next()?.count == (1 << 20) - 1)
        control.sync {}
        #expect(!exchange.isSuspended)
        #expect(try await iterator.next()?.count == 1)
        exchange.finish()
        #expect(try await iterator.next() == nil)
    }

    @Test func resumingTheOperationDoesNotFloodASlowReader() async throws {
        let (chunks, exchange, _) = try await begin()
        let control = chunks.operation.scheduler.taskControl
        exchange.respond(ResponseHead(statusCode: 200))
        for _ in 0..<4 { exchange.send(Data(count: 1 << 19)) }
        chunks.operation.suspend()
        chunks.operation.resume()
        control.sync {}
        #expect(exchange.isSuspended)
        var iterator = chunks.makeAsyncIterator()
        for _ in 0..<3 { _ = try await iterator.next() }
        control.sync {}
        #expect(!exchange.isSuspended)
        chunks.operation.cancel()
    }

    @Test func bodyThatBeginsAgainAfterItWasReadIsAnError() async throws {
        let (chunks, exchange, _) = try await begin()
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("1".utf8))
        var iterator = chunks.makeAsyncIterator()
        #expect(try await iterator.next() == Data("1".utf8))
        exchange.respond(ResponseHead(statusCode: 200))
        let error = await #expect(throws: RequestError.self) { try await iterator.next() }
        #expect(error?.code == .bodyNotReplayable)
        #expect(error?.isRetryable == false)
    }

    /// A reader that is always behind never empties the list, but the chunks that it has read must be freed.
    @Test func chunkThatHasBeenReadIsNotKept() async throws {
        let freed = EventLog<Int>()
        let buffer = try buffer(
            with: (0..<3).map { index in
                let bytes = UnsafeMutableRawPointer.allocate(byteCount: 20_000, alignment: 1)
                return Data(
                    bytesNoCopy: bytes, count: 20_000,
                    deallocator: .custom { bytes, _ in
                        bytes.deallocate()
                        freed.record(index)
                    })
            })
        #expect(try await buffer.next().get()?.count == 20_000)
        #expect(freed.events == [0])
    }

    private func buffer(with chunks: [Data]) throws -> ChunkBuffer {
        let buffer = ChunkBuffer()
        let calls = SinkCalls(fail: { _ in }, caughtUp: {}, canPause: true)
        try buffer.begin(limit: 1_000_000, calls: calls)
        for chunk in chunks { try buffer.write(chunk) }
        return buffer
    }

    @Test func smallChunksThatWaitAreJoined() async throws {
        let buffer = try buffer(with: ["a", "b", String(repeating: "c", count: 20_000), "d"].map { Data($0.utf8) })
        #expect(try await buffer.next().get() == Data("ab".utf8))
        #expect(try await buffer.next().get()?.count == 20_000)
        #expect(try await buffer.next().get() == Data("d".utf8))
    }

    /// A cancellation or a deadline is reported before the unread chunks, a lost connection after them.
    @Test(arguments: [RequestError.Code.deadlineExceeded, .cancelled, .connectionLost])
    func theCallersEndComesAtOnce(_ code: RequestError.Code) async throws {
        let buffer = try buffer(with: [Data("a".utf8)])
        buffer.end(RequestError(code, "over"))
        if code == .connectionLost { #expect(try await buffer.next().get() == Data("a".utf8)) }
        #expect(await buffer.next().code == code)
    }
}
