import Foundation
import Testing

@testable import Convoy

@Suite struct DispatchGroupTests {
    @Test func aGroupIsLeftWhenEachOperationAndItsHandlersHaveReturned() async {
        let manager = StubServer { $0.answer($0.request.url.path == "/b" ? 500 : 200) }.manager()
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
        // An operation that has finished leaves at once.
        operations[0].enter(group)
        group.notify(queue: .global()) { log.record("again") }
        #expect(await log.wait(count: 5).last == "again")
    }
}
