import Foundation
import Testing

@testable import Convoy

@Suite struct BatchOperationTests {
    @Test func dependentsOfABatchWaitForItsLastMember() async throws {
        let (server, manager) = StubServer.held().withManager()
        let batch = manager.batch([Request<Data>.stub("a"), .stub("b")])
        let log = EventLog<String>()
        let block = BlockOperation { log.record("block") }
        block.addDependency(batch.operation(named: "tiles"))
        OperationQueue().addOperation(block)
        let other = manager.operation(.stub("other"))
        let link = manager.operation(after: batch, other) { results, other in
            Request<Data>.stub("after\(results.count { $0.code == nil })of\(results.count)")
        }
        manager.enqueue(link, other)
        let exchanges = await server.exchanges.wait(count: 3)
        #expect(manager.why(link).contains("a batch (executing)"))
        for exchange in exchanges where exchange.request.url.path != "/a" { exchange.answer(404) }
        #expect(log.events.isEmpty)
        for exchange in exchanges where exchange.request.url.path == "/a" { exchange.answer(200) }
        await log.wait()
        #expect(batch.currentProgress.finishedCount == 2 && batch.currentProgress.failedCount == 1)
        // The link fails because `other` failed with a 404. A failed member of the batch would not fail the link.
        #expect(await link.resultCode() == .dependencyFailed)

        let next = manager.operation(after: batch) { Request<Data>.stub("next\($0.count { $0.code == nil })") }
        manager.enqueue(next)
        let last = await server.exchanges.wait(count: 4)[3]
        #expect(last.request.url.path == "/next1")
        last.answer(200)
        try await next.response()
    }

    @Test func cancellingTheOperationOfABatchCancelsTheBatch() async {
        let server = StubServer.held()
        let batch = server.manager().batch((0..<3).map { Request<Data>.stub("\($0)") })
        let operation = batch.operation()
        await server.exchanges.wait(count: 3)
        operation.cancel()
        #expect(await batch.results.map(\.code) == [.cancelled, .cancelled, .cancelled])
        await #expect(throws: RequestError.self) { try await operation.value }
        #expect(operation.error?.code == .cancelled)
    }

    @Test func aBatchIsAMemberOfAGroup() async throws {
        let (server, manager) = StubServer().withManager(1)
        let group = manager.operation(named: "sync") { group in
            let batch = manager.batch((0..<5).map { Request<Data>.stub("\($0)") })
            group.enqueue(batch.operation())
            return batch
        }
        manager.enqueue(group)
        let batch = try await group.value
        #expect(batch.currentProgress.finishedCount == 5 && server.exchanges.count == 5)
    }
}
