import Foundation
import Testing

@testable import Convoy

/// A stream whose writes follow a script, and which records the bytes.
final class ScriptedStream: OutputStream {
    // The results of the writes: a maximum of bytes, 0, or -1. The last result is repeated.
    private var answers: [Int] = [.max]
    private var status = Stream.Status.notOpen
    /// Whether a write returns more than its length.
    private var claimsTooMuch = false
    let calls = EventLog<String>()
    let taken = EventLog<Data>()
    var body: Data { taken.events.reduce(Data(), +) }
    private var gate: DispatchSemaphore?
    private var onWrite: ((Int) -> Void)?

    /// - Parameters:
    ///   - gate: blocks the first write until it is signalled.
    ///   - onWrite: receives the number of bytes of each write, which are not recorded then.
    static func make(
        _ answers: [Int] = [.max], gate: DispatchSemaphore? = nil, claimsTooMuch: Bool = false,
        onWrite: ((Int) -> Void)? = nil
    ) -> ScriptedStream {
        let stream = ScriptedStream(toMemory: ())
        (stream.answers, stream.claimsTooMuch, stream.gate, stream.onWrite) = (answers, claimsTooMuch, gate, onWrite)
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
        if let onWrite { onWrite(answer) } else if answer > 0 { taken.record(Data(bytes: buffer, count: answer)) }
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
    var request: Request<Data?> {
        Request.stub("a").written { [self] in
            makes.record(())
            return stream
        }
    }

    init(_ answers: [Int] = [.max], gate: DispatchSemaphore? = nil, claimsTooMuch: Bool = false) {
        stream = ScriptedStream.make(answers, gate: gate, claimsTooMuch: claimsTooMuch)
    }
}

@Suite struct StreamSinkTests {
    private let body = Data("hello, world".utf8)

    private func send(
        _ box: StreamBox, pieces: Int = 3
    ) async throws -> (sending: Sending<Data?>, result: RequestOperation<Data?>.Result) {
        let server = StubServer { [body] in
            $0.answer(200, pieces: body.pieces(of: (body.count + pieces - 1) / pieces))
        }
        let sending = Sending(box.request, over: server.transport)
        return (sending, try await sending.result())
    }

    private func written(to path: String) -> Request<Data?> {
        Request.stub("a").written { OutputStream(toFileAtPath: path, append: true) ?? OutputStream(toMemory: ()) }
    }

    @Test(arguments: ["hello", ""]) func streamToMemoryGivesTheBody(body: String) async throws {
        let server = StubServer { $0.answer(200, body: Data(body.utf8)) }
        let request = Request.stub("a").written { OutputStream(toMemory: ()) }
        #expect(try await Sending(request, over: server.transport).response().value ?? Data() == Data(body.utf8))
        let directory = try TemporaryDirectory()
        let file = directory.file("out")
        #expect(try await Sending(written(to: file.path), over: server.transport).response().value == nil)
        #expect(try Data(contentsOf: file) == Data(body.utf8))
    }

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
        let error = try #require(result.failure as? RequestError)
        error.expect(.destinationUnwritable)
        #expect(error.message.contains(answers.last == 0 ? "is full" : "failed"))
        // A stream that has failed is not written to again, but closed: its descriptor would leak otherwise.
        let calls = await box.stream.calls.wait(count: answers.count + 2)
        #expect(calls == ["open"] + Array(repeating: "write", count: answers.count) + ["close"])
        #expect(sending.outcomes.count == 1)
    }

    /// The stream reports more bytes than it has received.
    @Test(arguments: [[1_000], [1, .max]])
    func writeThatClaimsTooMuchEndsTheRequest(answers: [Int]) async throws {
        let (_, result) = try await send(StreamBox(answers, claimsTooMuch: true))
        #expect(result.code == .destinationUnwritable)
    }

    @Test func streamAtCapacityEndsTheRequest() async throws {
        let server = StubServer { $0.answer(200, pieces: Array(repeating: Data(count: 5), count: 4)) }
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

    @Test(arguments: [("/dev/full", "x"), ("/nonexistent/directory/file", "x"), ("/nonexistent/directory/file", "")])
    func aStreamToAFileThatFailsEndsTheRequest(path: String, body: String) async throws {
        let server = StubServer { $0.answer(200, body: Data(body.utf8)) }
        let error = try await Sending(written(to: path), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        if path == "/dev/full" { #expect(error.underlying != nil) }
    }

    @Test func aFailureBeforeAnAcceptableHeadMakesNoStream() async throws {
        let box = StreamBox()
        let server = StubServer { $0.answer(404, body: Data("none".utf8)) }
        let error = try await Sending(box.request, over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("none".utf8))
        let lost = StubServer { $0.finish(.cut) }
        #expect(try await Sending(box.request, over: lost.transport).error().code == .connectionLost)
        #expect(box.makes.count == 0)
    }

    /// The caller's function may truncate a file, so a late head must not call it.
    @Test func headOfAnAttemptThatIsOverMakesNoStream() async throws {
        let box = StreamBox()
        let request = box.request
        let operation = RequestOperation(request, transport: StubServer.held().transport)
        let (prepared, now) = (try PreparedRequest(request.core, baseURL: nil), CompactInstant(.now))
        let launch = OperationRecord.Launch(
            number: 1, request: prepared, plan: TypedRequestPlan(request), moment: now)
        let attempt = Attempt(launch, of: operation, request: prepared, started: now)
        attempt.close()
        attempt.didReceive(ResponseHead(statusCode: 200))
        // If the late head had made a sink, that would probably create its stream on its own queue during two requests.
        for _ in 0..<2 {
            let other = Request.stub("b").written { OutputStream(toMemory: ()) }
            _ = try await Sending(other, over: StubServer().transport).response()
        }
        #expect(box.makes.count == 0)
    }

    @Test func cancellationClosesTheStream() async throws {
        let (box, server) = (StreamBox(), StubServer.held())
        let sending = Sending(box.request, over: server.transport)
        try await server.answered().send(Data("x".utf8))
        await box.stream.calls.wait(count: 2)
        sending.operation.cancel()
        #expect(try await sending.error().code == .cancelled)
        #expect(await box.stream.calls.wait(count: 3) == ["open", "write", "close"])
    }

    @Test func responseThatArrivesAgainMakesAnotherStream() async throws {
        let (boxes, makes) = ([StreamBox(), StreamBox()], EventLog<Void>())
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("first".utf8))
            exchange.answer(200, body: Data("second".utf8))
        }
        let count = Locked(0)
        // Two sinks may call this function at the same time.
        let request = Request.stub("a").written {
            defer { makes.record(()) }
            return boxes[min(count.countUp(), 2) - 1].stream
        }
        let response = try await Sending(request, over: server.transport).response()
        #expect(response.transfer.download.completedBytes == 6)
        await makes.wait(count: 2)
        // Each sink has its own queue, so either stream may be created first. One of the streams has the complete body.
        #expect(boxes.contains { $0.stream.body == Data("second".utf8) })
        for box in boxes { #expect(await box.stream.calls.wait(count: 2).last == "close") }
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
        let exchange = try await server.answered()
        await makes.wait()
        exchange.send(Data("hello".utf8))
        exchange.finish()
        gate.signal()
        let error = try await sending.error()
        #expect(error.code == .destinationUnwritable)
        #expect((error.underlying as? POSIXError)?.code == .EMFILE)
    }

    @Test func aBlockingStreamDelaysNoOtherRequest() async throws {
        let gate = DispatchSemaphore(value: 0)
        let box = StreamBox(gate: gate)
        let server = StubServer { $0.answer(200, body: Data("hello".utf8)) }
        let blocked = Sending(box.request, over: server.transport)
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
        let (box, server) = (StreamBox(gate: gate), StubServer.held(pausesInPlace: false))
        let sending = Sending(box.request, over: server.transport)
        let exchange = try await server.answered()
        for _ in 0..<2 { exchange.send(Data(count: 32 << 20)) }
        #expect(sending.outcomes.count == 0)
        exchange.send(Data(count: 1))
        let error = try await sending.error()
        #expect(error.code == .bodyTooLarge)
        #expect(error.message.contains("unwritten bytes"))
    }
}
