import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests how an operation starts, and how it delivers its result and its body.
@Suite struct OperationExampleTests {
    @Test func nothingRunsBeforeStartAndStartReturnsAtOnce() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200, body: "x"))
        let operation = RequestOperation(Request<String>.get(server.url()))
        #expect(operation.isAsynchronous && operation.isReady && !operation.isExecuting)
        #expect(server.connectionCount == 0)
        operation.start()
        #expect(try await operation.response().value == "x")
        #expect(operation.isFinished)
    }

    /// `startAndWait()` runs the run loop of its thread, so a callback for that run loop is called.
    @Test func startAndWaitSpinsTheRunLoop() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200, body: "x"))
        let url = server.url()
        let told = EventLog<Bool>()
        let text = await offPool { () -> String? in
            let operation = RequestOperation(Request<String>.get(url))
            let thread = ObjectIdentifier(Thread.current)
            operation.onFinish(on: .runLoop(.current, modes: [.default])) { _ in
                told.record(ObjectIdentifier(Thread.current) == thread)
            }
            return try? operation.startAndWait().value
        }
        #expect(text == "x")
        #expect(told.events == [true])
    }

    @Test func theCompletionBlockSeesTheResult() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(404, body: "no"))
        let log = EventLog<Int?>()
        let operation = RequestOperation(Request<String>.get(server.url()))
        operation.completionBlock = { [weak operation] in log.record((operation?.error)?.response?.statusCode) }
        let queue = OperationQueue()
        queue.addOperation(operation)
        #expect(await log.wait() == [404])
    }

    /// The body is written to memory, to a file, and to a buffer that is too small, which is an error.
    @Test func theBodyGoesToAStream() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = Reply.pattern(range: 0..<200_000)
        server.respond { _ in Reply.body(body) }
        let directory = try TemporaryDirectory()
        let file = directory.url.appending(path: "body")
        let manager = RequestManager()
        let request = Request<Data>.get(server.url())
        #expect(try await manager.send(request.written { .toMemory() }).value == body)
        _ = try await manager.send(request.written { OutputStream(url: file, append: false) ?? .toMemory() })
        #expect(try Data(contentsOf: file) == body)
        let small = manager.enqueue(
            request.written { OutputStream(toBuffer: .allocate(capacity: 1_000), capacity: 1_000) })
        let error = await #expect(throws: RequestError.self) { try await small.response() }
        #expect(error?.code == .destinationUnwritable)
    }

    @Test func theOriginalAndTheCurrentRequestAreBothKnown() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.redirect(to: "/there"))
        server.enqueue(.status(200))
        let operation = RequestManager().enqueue(Request<Data>.get(server.url("/here")))
        let response = try await operation.response()
        #expect(operation.request?.url.path == "/here")
        #expect(response.request.url.path == "/there")
    }
}
