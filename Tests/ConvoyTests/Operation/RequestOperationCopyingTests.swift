import Foundation
import Testing

@testable import Convoy

@Suite struct RequestOperationCopyingTests {
    @Test func aCopyIsAnUnsentOperationOfTheSameRequest() async throws {
        let server = StubServer()
        let manager = server.manager()
        let request = Request<Data>.post("http://stub/a").body("x").tagged("t").named("n").priority(.high)
        let operation = manager.operation(request)
        let told = EventLog<Void>()
        operation.onFinish { _ in told.record(()) }
        let copy = operation.copy()
        #expect(copy !== operation)
        #expect(copy.tags == ["t"])
        #expect(copy.name == "n")
        #expect(copy.queuePriority == .high)
        #expect(copy.dependencies.isEmpty)
        manager.enqueue(operation, copy)
        let first = try await operation.response()
        let second = try await copy.response()
        #expect(first.request == second.request)
        #expect(server.exchanges.count == 2)
        await manager.drain()
        #expect(told.count == 1)
    }

    @Test func aFailedOperationIsSentAgainAsItsCopy() async throws {
        let isDown = Locked(true)
        let server = StubServer { $0.answer(isDown.withLock { $0 } ? 503 : 200, body: Data("\"ok\"".utf8)) }
        let manager = server.manager()
        let operation = manager.enqueue(
            Request<String>.put("http://stub/a").json(["a": 1]).failing(with: Problem.self))
        #expect(await operation.resultCode() == .unacceptableStatus)
        isDown.withLock { $0 = false }
        // The copy keeps its type when only the base class is known.
        let copy = (operation as AnyRequestOperation).copy()
        let erased: Any = operation.copy()
        #expect(erased is RequestOperation<String>)
        manager.enqueue(copy)
        let again = try #require(copy as? RequestOperation<String>)
        #expect(try await again.response().value == "\"ok\"")
        #expect(
            server.exchanges.events.map(\.request.body).allSatisfy { $0 == server.exchanges.events[0].request.body })
        #expect(again.copy() !== again)
    }

    private struct Problem: Error, Decodable { let title: String }

    @Test(arguments: ["closure", "failure", "stream", "interceptor", "map"])
    func aCopyOfAFinishedOperationWithReleasedCodeFails(code: String) async throws {
        struct Nothing: RequestInterceptor {}
        let request: Request<Data> =
            switch code {
            case "closure": Request(url: "http://stub/a") { body, _ in body }
            case "failure": Request<Data>.stub("a").failing { _, _ in Problem(title: "x") }
            case "stream": Request<Data>.stub("a").body { InputStream(data: Data()) }
            case "interceptor": Request<Data>.stub("a").intercepted(by: Nothing())
            default: Request<Data>.stub("a").map { $0 }
            }
        let server = StubServer()
        let manager = server.manager()
        let operation = manager.operation(request)
        let early = operation.copy()
        manager.enqueue(operation)
        _ = await operation.resultCode()
        await manager.drain()
        let count = server.exchanges.count
        let late = operation.copy()
        manager.enqueue(late)
        let error = await #expect(throws: RequestError.self) { try await late.response() }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("copy of a finished operation") == true)
        #expect(server.exchanges.count == count)
        manager.enqueue(early)
        _ = await early.resultCode()
        #expect(server.exchanges.count == count + 1)
    }

    private final class RefusalMonitor: EventMonitor {
        let refusals = EventLog<RequestError>()

        func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {}
        func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) { refusals.record(error) }
    }

    @Test func enqueueingAFinishedOperationIsReported() async throws {
        let server = StubServer.held()
        let monitor = RefusalMonitor()
        let lines = EventLog<String>()
        let manager = server.manager(monitors: [monitor, LogMonitor { _, line in lines.record(line) }])
        let (operation, other) = (manager.operation(.stub("a")), manager.operation(.stub("b")))
        #expect(manager.enqueue(operation).isEmpty)
        // Enqueuing a running operation a second time is harmless.
        #expect(manager.enqueue(other, other).isEmpty)
        for exchange in await server.exchanges.wait(count: 2) { exchange.answer(200) }
        await manager.drain()
        let errors = manager.enqueue(operation, manager.operation(.stub("c")))
        #expect(errors.map(\.code) == [.invalidRequest])
        #expect(errors.first?.message.contains("has finished") == true)
        #expect(await monitor.refusals.wait().map(\.message) == errors.map(\.message))
        await server.exchanges.wait(count: 3)[2].answer(200)
        await manager.drain()
        #expect(server.paths == ["/a", "/b", "/c"])
        await look { lines.events.contains { $0.contains("cannot run twice") } }
    }
}
