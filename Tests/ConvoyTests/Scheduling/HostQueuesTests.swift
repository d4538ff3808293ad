import Foundation
import Testing

@testable import Convoy

@Suite struct HostQueuesTests {
    private func queueEntry(_ name: String, host: String = "a", _ priority: Operation.QueuePriority = .normal)
        -> QueueEntry
    {
        let queueEntry = QueueEntry(
            RequestOperation(Request<Data>.stub(name), transport: StubServer().transport))
        queueEntry.host = host
        queueEntry.priority = Versioned(priority)
        return queueEntry
    }

    private func takeAll(_ room: inout HostQueues, limit: Int = .max) -> [String] {
        var names: [String] = []
        while let queueEntry = room.takeNext(limit: limit, now: .now) { names.append(queueEntry.operation?.name ?? "") }
        return names
    }

    @Test func anEntryThatLeftIsNotDequeuedAndOneThatReturnsIsDequeuedOnce() {
        var room = HostQueues(limits: HostLimits(fixed: 10))
        let (first, second) = (queueEntry("first"), queueEntry("second"))
        room.join(first)
        room.join(second)
        room.release(first, for: .suspended)
        room.release(first, for: .suspended)
        room.join(first)
        #expect(takeAll(&room) == ["second", "first"])
        room.release(first)
        room.release(first)
        #expect(room.running == 1)
    }

    /// Compares the queues with a linear search of a plain list, while entries leave.
    @Test(arguments: [RequestPrioritization.fifo, .lifo], 0..<20)
    func behavesAsAListThatIsSearched(prioritization: RequestPrioritization, seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var room = HostQueues(limits: HostLimits(fixed: 3), prioritization)
        var (waiting, running): ([QueueEntry], [QueueEntry]) = ([], [])
        let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
        let direction = prioritization == .lifo ? -1 : 1
        for step in 0..<500 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1, 2:
                let new = queueEntry(
                    "\(step)", host: "\(Int.random(in: 0..<4, using: &random))",
                    priorities.randomElement(using: &random) ?? .normal)
                room.join(new)
                waiting.append(new)
            case 3:
                guard let one = running.randomElement(using: &random) else { continue }
                room.release(one)
                running.removeAll { $0 === one }
            case 4:
                guard let one = waiting.randomElement(using: &random) else { continue }
                room.release(one)
                waiting.removeAll { $0 === one }
            default:
                let expected = waiting.enumerated().filter { candidate in
                    running.count { $0.host == candidate.element.host } < 3
                }.min {
                    ($0.element.priorityIndex, direction * $0.offset)
                        < ($1.element.priorityIndex, direction * $1.offset)
                }
                let taken = room.takeNext(limit: 8, now: .now)
                #expect(taken === (running.count < 8 ? expected?.element : nil))
                guard let taken else { continue }
                waiting.removeAll { $0 === taken }
                running.append(taken)
            }
            #expect(room.running == running.count)
        }
    }

    /// A list that is scrolled adds and cancels many requests, also while its manager is suspended.
    @Test(arguments: [RequestPrioritization.fifo, .lifo], [true, false])
    func leftoversDoNotPileUp(prioritization: RequestPrioritization, isInUse: Bool) {
        var room = HostQueues(limits: HostLimits(fixed: 1), prioritization)
        let (check, holder) = (LeakCheck(), queueEntry("holder"))
        if isInUse {
            room.join(holder)
            #expect(room.takeNext(limit: 1, now: .now) === holder)
            room.join(queueEntry("waits"))
        }
        for index in 0..<2_000 {
            let passing = check.watch(queueEntry("\(index)"))
            room.join(passing)
            room.release(passing)
        }
        #expect(check.aliveCount < 200)
    }
}
