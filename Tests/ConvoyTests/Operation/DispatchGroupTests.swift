import Foundation
import Testing

@testable import Convoy

@Suite struct DispatchGroupTests {
    @Test func aGroupIsLeftWhenEachOperationAndItsHandlersHaveReturned() async {
        let server = StubServer { $0.answer($0.request.url.path == "/b" ? 500 : 200) }
        let manager = server.manager()
        let operations = ["a", "b", "c"].map { manager.operation(.stub($0)) }
        let (group, log) = (DispatchGroup(), EventLog<String>())
        for operation in operations {
            operation.onFinish { _ in log.record("handled") }
            operation.enter(group)
        }
        operations[2].cancel()
        group.notify(queue: .global()) { log.record("all") }
        manager.enqueue(contentsOf: operations.dropLast())
        #expect(await log.wait(count: 4) == ["handled", "handled", "handled", "all"])
    }

    @Test func anOperationThatHasFinishedLeavesAtOnce() async throws {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        operation.start()
        _ = try await operation.response()
        let (group, log) = (DispatchGroup(), EventLog<Void>())
        operation.enter(group)
        group.notify(queue: .global()) { log.record(()) }
        await log.wait()
    }
}
