import Foundation
import Testing

@testable import Convoy

/// A stream whose writes follow a script, and which records the bytes.
private final class ScriptedStream: OutputStream {
    /// The results of the writes: a maximum of bytes, 0, or -1.
    ///
    /// The last result is repeated.
    private var answers: [Int] = [.max]
    private var status = Stream.Status.notOpen
    /// Whether a write returns more than its length.
    private var claimsTooMuch = false
    let calls = EventLog<String>()
    /// The bytes of each write.
    let taken = EventLog<Data>()
    var body: Data { taken.events.reduce(Data(), +) }
    private var gate: DispatchSemaphore?

    static func make(
        _ answers: [Int], gate: DispatchSemaphore? = nil, claimsTooMuch: Bool = false
    ) -> ScriptedStream {
        let stream = ScriptedStream(toMemory: ())
        stream.answers = answers
        stream.claimsTooMuch = claimsTooMuch
        stream.gate = gate
        return stream
    }

    override func open() {
        status = .open
        calls.record("open")
    }
    override func close() {
        status = .closed
        calls.record("close")
    }
    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }
    override func property(forKey _: Stream.PropertyKey) -> AnyObject? { nil }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength count: Int) -> Int {
        gate?.wait()
        gate = nil
        calls.record("write")
        let given = answers.count > 1 ? answers.removeFirst() : answers[0]
        if claimsTooMuch { return given }
        let answer = min(given, count)
        if answer > 0 { taken.record(Data(bytes: buffer, count: answer)) }
        return answer
    }
}

/// A stream that cannot be opened, because no file descriptor is free.
private final class UnopenedStream: OutputStream {
    private var status = Stream.Status.notOpen
    override func open() { status = .error }
    override func close() {}
    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { POSIXError(.EMFILE) }
    override func property(forKey _: Stream.PropertyKey) -> AnyObject? { nil }
    override func write(_: UnsafePointer<UInt8>, maxLength _: Int) -> Int { -1 }
}

/// A stream that one thread creates and another thread reads afterwards.
private final class StreamBox: @unchecked Sendable {
    // @unchecked: the stream is created before the request starts, and then only its logs are read.
    let stream: ScriptedStream
    let makes = EventLog<Void>()

    init(_ answers: [Int], gate: DispatchSemaphore? = nil, claimsTooMuch: Bool = false) {
        stream = ScriptedStream.make(answers, gate: gate, claimsTooMuch: claimsTooMuch)
    }

    func make() -> OutputStream {
        makes.record(())
        return stream
    }
}

@Suite struct StreamSinkTests {
    private let body = Data("hello, world".utf8)

    private func send(
        _ box: StreamBox, pieces: Int = 3
    ) async throws -> (sending: Sending<Data?>, result: RequestOperation<Data?>.Result) {
        let body = body
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            let size = (body.count + pieces - 1) / pieces
            for start in stride(from: 0, to: body.count, by: size) {
                exchange.send(body[start..<min(start + size, body.count)])
            }
            exchange.finish()
        }
        let sending = Sending(Request.stub("a").written(to: { box.make() }), over: server.transport)
        return (sending, try await sending.result())
    }

    @Test func streamToMemoryGivesTheBody() async throws {
        let server = StubServer { $0.answer(200, body: Data("hello".utf8)) }
        let request = Request.stub("a").written { OutputStream(toMemory: ()) }
        #expect(try await Sending(request, over: server.transport).response().value == Data("hello".utf8))
        let empty = Sending(request, over: StubServer { $0.answer(200) }.transport)
        #expect(try await empty.response().value ?? Data() == Data())
    }

    // MARK: Every write is checked

    @Test(arguments: [[.max], [1], [2], [3], [1, 2, 3], [1, 1, .max], [3, 2, 1]])
    func partialWritesAreGoneOnWith(answers: [Int]) async throws {
        let box = StreamBox(answers)
        let (_, result) = try await send(box)
        #expect(try result.get().value == nil)
        #expect(box.stream.body == body)
        #expect(box.stream.calls.events.first == "open")
        #expect(box.stream.calls.events.last == "close")
        #expect(box.stream.calls.events.count { $0 == "close" } == 1)
        #expect(box.makes.count == 1)
    }

    @Test(arguments: [[0], [-1], [1, 0], [2, 3, -1], [.max, 0], [.max, .max, -1]], [1, 3])
    func aWriteOfZeroBytesFailsTheRequest(answers: [Int], pieces: Int) async throws {
        guard answers.count <= pieces || answers[0] != .max else { return }
        let box = StreamBox(answers)
        let (sending, result) = try await send(box, pieces: pieces)
        guard case .failure(let error) = result else {
            Issue.record("it succeeded")
            return
        }
        #expect(error.code == .destinationUnwritable)
        #expect(error.message.contains(answers.last == 0 ? "is full" : "failed"))
        #expect(!error.isRetryable)
        #expect(error.description.isOneLine)
        // A stream that has failed is not written to again.
        #expect(box.stream.calls.events.count { $0 == "write" } == answers.count)
        #expect(sending.outcomes.count == 1)
    }

    /// The stream reports more bytes than it has received.
    @Test(arguments: [[1_000], [1, .max]])
    func writeThatClaimsTooMuchEndsTheRequest(answers: [Int]) async throws {
        let (_, result) = try await send(StreamBox(answers, claimsTooMuch: true))
        #expect(result.code == .destinationUnwritable)
    }

    /// A stream that has failed is closed too, because its descriptor would leak otherwise.
    @Test(arguments: [0, -1])
    func streamThatFailedIsClosed(answer: Int) async throws {
        let box = StreamBox([answer])
        _ = try await send(box)
        let calls = await box.stream.calls.wait(count: 3)
        #expect(calls == ["open", "write", "close"])
    }

    @Test func streamAtCapacityEndsTheRequest() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            for _ in 0..<4 { exchange.send(Data(repeating: 7, count: 5)) }
            exchange.finish()
        }
        // The memory is never freed, because the test does not know when the stream stops using it.
        let address = Int(bitPattern: UnsafeMutableRawPointer.allocate(byteCount: 12, alignment: 1))
        let request = Request.stub("a").written {
            guard let buffer = UnsafeMutablePointer<UInt8>(bitPattern: address) else {
                return OutputStream(toMemory: ())
            }
            return OutputStream(toBuffer: buffer, capacity: 12)
        }
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
    }

    #if os(Linux)
        @Test func fullDiskEndsTheRequest() async throws {
            let server = StubServer { $0.answer(200, body: Data("x".utf8)) }
            let request = Request.stub("a").written {
                OutputStream(toFileAtPath: "/dev/full", append: true) ?? OutputStream(toMemory: ())
            }
            let error = try await Sending(request, over: server.transport).error()
            #expect(error.code == .destinationUnwritable)
            #expect(error.underlying != nil)
        }
    #endif

    @Test(arguments: [Data("x".utf8), Data()])
    func streamThatCannotBeOpenedEndsTheRequest(body: Data) async throws {
        let server = StubServer { $0.answer(200, body: body) }
        let request = Request.stub("a").written {
            OutputStream(toFileAtPath: "/nonexistent/directory/file", append: false) ?? OutputStream(toMemory: ())
        }
        let result = try await Sending(request, over: server.transport).result()
        #expect(result.code == .destinationUnwritable)
    }

    @Test func streamToAFileHasTheBody() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("out").path
        let request = Request.stub("a").written {
            OutputStream(toFileAtPath: path, append: false) ?? OutputStream(toMemory: ())
        }
        #expect(try await Sending(request, over: StubServer().transport).response().value == nil)
        #expect(try Data(contentsOf: directory.file("out")) == Data("ok".utf8))
    }

    // MARK: When a stream is made and closed

    @Test func unacceptableAnswerMakesNoStream() async throws {
        let box = StreamBox([.max])
        let server = StubServer { $0.answer(404, body: Data("none".utf8)) }
        let error = try await Sending(Request.stub("a").written(to: { box.make() }), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("none".utf8))
        #expect(box.makes.count == 0)
    }

    @Test func failureBeforeTheHeadMakesNoStream() async throws {
        let box = StreamBox([.max])
        let server = StubServer { $0.finish(RequestError(.connectionFailed, "refused")) }
        _ = try await Sending(Request.stub("a").written(to: { box.make() }), over: server.transport).error()
        #expect(box.makes.count == 0)
    }

    /// The caller's function may truncate a file, so a late head must not call it.
    @Test func headOfAnAttemptThatIsOverMakesNoStream() async throws {
        let box = StreamBox([.max])
        let request = Request.stub("a").written(to: { box.make() })
        let operation = RequestOperation(request, transport: StubServer.held().transport)
        let attempt = Attempt(
            number: 1, operation: operation, plan: TypedRequestPlan(request),
            request: try PreparedRequest(request.core, baseURL: nil), started: CompactInstant(.now))
        attempt.close()
        attempt.didReceive(ResponseHead(statusCode: 200))
        // The sink would create the stream on its own queue, and close it there afterwards.
        if await didMake(box) { #expect(box.stream.calls.events == []) }
        #expect(box.makes.count == 0)
    }

    private func didMake(_ box: StreamBox) async -> Bool {
        // Runs two requests, one after the other, with a sink and a queue each. If the late head had made a sink, that
        // sink would probably have created its stream before they end.
        for _ in 0..<2 {
            _ = try? await Sending(
                Request.stub("b").written { OutputStream(toMemory: ()) }, over: StubServer().transport
            ).result()
        }
        return box.makes.count > 0
    }

    @Test func cancellationClosesTheStream() async throws {
        let box = StreamBox([.max])
        let server = StubServer.held()
        let sending = Sending(Request.stub("a").written(to: { box.make() }), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("x".utf8))
        await box.stream.calls.wait(count: 2)
        sending.operation.cancel()
        #expect(try await sending.error().code == .cancelled)
        #expect(await box.stream.calls.wait(count: 3) == ["open", "write", "close"])
    }

    @Test func responseThatArrivesAgainMakesAnotherStream() async throws {
        let streams = [StreamBox([.max]), StreamBox([.max])]
        let next = Locked(0)
        let makes = EventLog<Void>()
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("first".utf8))
            exchange.answer(200, body: Data("second".utf8))
        }
        let request = Request.stub("a").written {
            defer { makes.record(()) }
            // Two sinks may call this function at the same time.
            return streams[
                next.withLock { index in
                    defer { index += 1 }
                    return min(index, 1)
                }
            ].stream
        }
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.transfer.download.completedBytes == 6)
        await makes.wait(count: 2)
        // Each sink has its own queue, so either stream may be created first. One of the streams has the complete body.
        let bodies = streams.map { $0.stream.body }
        #expect(bodies.contains(Data("second".utf8)))
        for box in streams { #expect(await box.stream.calls.wait(count: 2).last == "close") }
    }

    /// The transport has ended when the stream reports that it lacks a descriptor.
    @Test func aStreamThatLacksADescriptorAtTheEndFailsTheRequest() async throws {
        let server = StubServer.held()
        let gate = DispatchSemaphore(value: 0)
        let makes = EventLog<Void>()
        let request = Request.stub("a").written(to: {
            makes.record(())
            gate.wait()
            return UnopenedStream(toMemory: ())
        })
        let sending = Sending(request, over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        await makes.wait()
        exchange.send(Data("hello".utf8))
        exchange.finish()
        gate.signal()
        let error = try await sending.error()
        #expect(error.code == .destinationUnwritable)
        #expect((error.underlying as? POSIXError)?.code == .EMFILE)
    }

    // MARK: A stream that blocks

    @Test func aBlockingStreamDelaysNoOtherRequest() async throws {
        let gate = DispatchSemaphore(value: 0)
        let box = StreamBox([.max], gate: gate)
        let server = StubServer { $0.answer(200, body: Data("hello".utf8)) }
        let blocked = Sending(Request.stub("a").written(to: { box.make() }), over: server.transport)
        await box.stream.calls.wait()
        #expect(try await Sending(Request.stub("b"), over: server.transport).response().value == Data("hello".utf8))
        #expect(blocked.outcomes.count == 0)
        gate.signal()
        _ = try await blocked.response()
        #expect(box.stream.body == Data("hello".utf8))
    }

    @Test func backlogOfABlockedStreamIsLimited() async throws {
        let gate = DispatchSemaphore(value: 0)
        defer { gate.signal() }
        let box = StreamBox([.max], gate: gate)
        let server = StubServer.held(pausesInPlace: false)
        let sending = Sending(Request.stub("a").written(to: { box.make() }), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        for _ in 0..<2 { exchange.send(Data(count: 32 << 20)) }
        #expect(sending.outcomes.count == 0)
        exchange.send(Data(count: 1))
        let error = try await sending.error()
        #expect(error.code == .bodyTooLarge)
        #expect(error.message.contains("unwritten bytes"))
    }

    /// The limit applies to waiting bytes, so a stream that keeps up accepts a body of any length.
    @Test func streamThatKeepsUpHasNoLimit() async throws {
        let box = StreamBox([.max])
        let server = StubServer.held()
        let sending = Sending(Request.stub("a").written(to: { box.make() }), over: server.transport)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        for count in 1...5 {
            exchange.send(Data(count: 5))
            await box.stream.taken.wait(count: count)
        }
        exchange.finish()
        _ = try await sending.response()
        #expect(box.stream.body.count == 25)
    }
}
