// The manager's queue, used as any operation queue is.
import Convoy
import Foundation
import Testing

@Suite struct ManagerQueueTests {
    private static func makeQueue(_ isOwn: Bool) -> OperationQueue? { isOwn ? nil : OperationQueue() }

    /// Foundation asks whether an operation is ready while it holds the queue's lock: one that says yes behind a barrier
    /// would have it wait for itself.
    @Test(arguments: [true, false])
    func whatComesBehindABarrierWaitsForIt(isOwn: Bool) async {
        let server = StubServer.held()
        let manager = server.manager(queue: Self.makeQueue(isOwn))
        let log = EventLog<String>()
        manager.enqueue(.stub("a")) { _ in log.record("a") }
        let first = await server.exchanges.wait()[0]
        manager.queue.addBarrierBlock { log.record("barrier") }
        await offPool { _ = manager.enqueue(.stub("b")) { _ in log.record("b") } }
        #expect(server.exchanges.count == 1)
        #expect(log.count == 0)
        first.answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        let events = await log.wait(count: 3)
        // The first one's callback is ordered with neither.
        #expect(events.filter { $0 != "a" } == ["barrier", "b"])
    }

    @Test(arguments: [true, false])
    func aBarrierInAnEmptyQueueHoldsBackWhatComesLater(isOwn: Bool) async {
        let server = StubServer()
        let manager = server.manager(queue: Self.makeQueue(isOwn))
        let gate = DispatchSemaphore(value: 0)
        let log = EventLog<String>()
        manager.queue.addBarrierBlock {
            gate.wait()
            log.record("barrier")
        }
        manager.enqueue(.stub("a")) { _ in log.record("a") }
        gate.signal()
        let events = await log.wait(count: 2)
        // Foundation starts what comes behind a barrier in an empty queue at once.
        if isOwn { #expect(events == ["barrier", "a"]) }
    }

    @Test(arguments: [true, false])
    func waitingForTheQueueWaitsForAllThatWaits(isOwn: Bool) async {
        let server = StubServer { exchange in DispatchQueue.global().async { exchange.answer(200) } }
        let manager = server.manager(4, queue: Self.makeQueue(isOwn))
        let operations = (0..<40).map { manager.operation(.stub("\($0)")) }
        manager.enqueue(operations)
        await offPool { manager.queue.waitUntilAllOperationsAreFinished() }
        // A queue of the caller's may be empty for a moment, between an operation and those it makes room for.
        if !isOwn { await manager.drain() }
        #expect(operations.count { !$0.isFinished } == 0)
    }

    /// Foundation traps on an operation that begins on its way into a queue.
    @Test(.timeLimit(.minutes(5)))
    func startingByHandOnTheWayIntoTheQueueIsHarmless() async {
        let manager = StubServer().manager(queue: OperationQueue())
        for _ in 0..<300 {
            let operation = manager.operation(.stub("a"))
            async let enqueued: Void = offPool { manager.enqueue(operation) }
            async let started: Void = offPool { operation.start() }
            _ = await (enqueued, started)
            _ = try? await operation.response()
            #expect(operation.result?.code == nil)
        }
        await manager.drain()
    }
}
