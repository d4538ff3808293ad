import Foundation
import Testing

@testable import Convoy

@Suite struct RequestOperationCopyingTests {
    private struct Problem: Error, Decodable { let title: String }

    @Test func aCopyIsAnUnsentOperationOfTheSameRequest() async throws {
        let isDown = Locked(true)
        let server = StubServer { $0.answer(isDown.withLock { $0 } ? 503 : 200, body: Data("\"ok\"".utf8)) }
        let manager = server.manager()
        let request = Request<String>.put("http://stub/a").json(["a": 1]).failing(with: Problem.self)
        let operation = manager.operation(request.tagged("t").named("n").priority(.high))
        let told = EventLog<Void>()
        operation.onFinish { _ in told.record(()) }
        manager.enqueue(operation)
        #expect(await operation.resultCode() == .unacceptableStatus)
        isDown.withLock { $0 = false }
        // The copy keeps its type when only the base class is known.
        let copy = try #require((operation as AnyRequestOperation).copy() as? RequestOperation<String>)
        #expect(copy !== operation && copy.tags == ["t"] && copy.name == "n" && copy.queuePriority == .high)
        #expect(copy.dependencies.isEmpty && copy.copy() !== copy)
        manager.enqueue(copy)
        #expect(try await copy.response().value == "\"ok\"")
        let bodies = server.exchanges.events.map(\.request.body)
        #expect(bodies.count == 2 && bodies[0] == bodies[1])
        await manager.drain()
        #expect(told.count == 1)
    }

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
        let (server, manager) = StubServer().withManager()
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
