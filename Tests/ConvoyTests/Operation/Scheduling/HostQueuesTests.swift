import Foundation
import Testing

@testable import Convoy

@Suite struct HostQueuesTests {
    private func operation(
        _ name: String, host: String = "a", _ priority: Operation.QueuePriority = .normal
    ) -> RequestOperation<Data> {
        let request = Request<Data>.get("http://\(host)/\(name)").named(name).priority(priority)
        let operation = RequestOperation(request, transport: StubServer().transport)
        operation.withLock { $0.prepared = try? request.core.prepared(.standard) }
        return operation
    }

    private func takeAll(_ room: inout HostQueues, limit: Int = .max) -> [String] {
        var names: [String] = []
        while let operation = room.takeNext(limit: limit, now: .now) { names.append(operation.name ?? "") }
        return names
    }

    @Test func anOperationThatLeftIsNotDequeuedAndOneThatReturnsIsDequeuedOnce() {
        var room = HostQueues(limits: HostLimits(fixed: 10))
        let (first, second) = (operation("first"), operation("second"))
        room.join(first)
        room.join(second)
        room.release(first)
        room.release(first)
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
        var (waiting, running): ([AnyRequestOperation], [AnyRequestOperation]) = ([], [])
        let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
        let direction = prioritization == .lifo ? -1 : 1
        for step in 0..<500 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1, 2:
                let new = operation(
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
                    running.count { $0.record.nextHost == candidate.element.record.nextHost } < 3
                }.min {
                    ($0.element.record.priority.priorityIndex, direction * $0.offset)
                        < ($1.element.record.priority.priorityIndex, direction * $1.offset)
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
}
