import Foundation
import Testing

@testable import Convoy

/// Tests the order of requests with the same priority.
@Suite struct RequestPrioritizationTests {
    @Test(arguments: [RequestPrioritization.fifo, .lifo])
    func theOrderWithinAPriorityIsAsSet(_ prioritization: RequestPrioritization) async {
        let server = StubServer()
        let manager = server.manager(1) { $0.prioritization = prioritization }
        manager.isSuspended = true
        for index in 0..<4 { manager.enqueue(.stub("\(index)", host: index == 2 ? "other" : "stub")) }
        manager.enqueue(Request.stub("high").priority(.high))
        manager.enqueue(Request.stub("low").priority(.low))
        manager.isSuspended = false
        await manager.drain()
        let order = prioritization == .lifo ? ["/3", "/2", "/1", "/0"] : ["/0", "/1", "/2", "/3"]
        #expect(server.paths == ["/high"] + order + ["/low"])
    }

    /// The newest request starts first, but retries precede new requests.
    @Test func aRetryGoesBeforeTheNewest() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(1, clock: clock) { configuration in
            (configuration.prioritization, configuration.retries) = (.lifo, .standard)
        }
        let first = manager.enqueue(.stub("first"))
        await server.exchanges.wait()[0].answer(503)
        await clock.armed.wait()
        for name in ["a", "b", "c"] { manager.enqueue(.stub(name)) }
        // The slot must belong to an operation that has begun, so the test waits for its exchange.
        await server.exchanges.wait(count: 2)
        clock.advanceToNext()
        // The scheduler gives this reason after it has received the retry.
        await look { manager.why(first).hasPrefix("waits for a slot: 1 running") }
        for count in 2...5 { await server.exchanges.wait(count: count)[count - 1].answer(200) }
        #expect(server.paths == ["/first", "/a", "/first", "/c", "/b"])
        await manager.drain()
    }

    /// Compares the queues with a linear search of a plain list, while entries leave.
    ///
    /// Outdated entries must not pile up.
    @Test(arguments: 0..<10)
    func theNewestFirstBehavesAsAListThatIsSearched(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var queues = HostQueues(limits: HostLimits(fixed: 3), .lifo)
        var (waiting, running): ([QueueEntry], [QueueEntry]) = ([], [])
        for step in 0..<600 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let new = QueueEntry(SchedulerWorldObjects.operation(step % 32))
                new.host = "\(Int.random(in: 0..<4, using: &random))"
                new.priority = Versioned([.low, .normal, .high].randomElement(using: &random) ?? .normal)
                queues.join(new)
                waiting.append(new)
            case 2:
                guard let one = running.randomElement(using: &random) else { continue }
                queues.release(one)
                running.removeAll { $0 === one }
            case 3:
                guard let one = waiting.randomElement(using: &random) else { continue }
                queues.release(one)
                waiting.removeAll { $0 === one }
            default:
                let expected = waiting.enumerated().filter { candidate in
                    running.count { $0.host == candidate.element.host } < 3
                }.min { ($0.element.priorityIndex, -$0.offset) < ($1.element.priorityIndex, -$1.offset) }
                let taken = queues.takeNext(limit: 8, now: .now)
                #expect(taken === (running.count < 8 ? expected?.element : nil))
                guard let taken else { continue }
                waiting.removeAll { $0 === taken }
                running.append(taken)
            }
        }
    }

    /// Simulates a list that is scrolled while its manager is suspended.
    @Test func entriesThatJoinAndLeaveAreRemoved() {
        var queues = HostQueues(limits: HostLimits(fixed: 1), .lifo)
        for _ in 0..<2_000 {
            let passing = QueueEntry(nil)
            passing.host = "a"
            queues.join(passing)
            queues.release(passing)
        }
        #expect(queues.candidates.new.count < 100)
    }
}
