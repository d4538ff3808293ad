// Tests operation queues with many operations and threads, and after the queue was released. The same cases run with
// plain operations and with requests.
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceManyTests {
    private static let names = (0..<12).map { "\($0)" }

    @Test(arguments: QueueSubject.queues, [3, -1])
    func operationsAddedByManyThreadsRunOnce(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let parts = (0..<8).map { thread in world.make((0..<100).map { "\(thread)-\($0)" }) }
            for (thread, part) in parts.enumerated() {
                world.begin("added \(thread)") { for operation in part { world.addHere(operation) } }
            }
            for thread in 0..<8 { try await world.untilLogged("added \(thread)") }
            try await world.waitForAll()
            world.expect(parts.joined().count { !$0.isFinished }, is: 0, "unfinished")
            world.expect(world.board.begun.count == 800 && Set(world.board.begun).count == 800, "each has run once")
            world.expect(world.queue.operationCount, is: 0, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues, [3, -1])
    func operationsCancelledOneByOneFinish(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let operations = world.make((0..<400).map { "\($0)" })
            world.begin("cancelled") { for operation in operations.reversed() { operation.cancel() } }
            try await world.add(operations)
            try await world.untilLogged("cancelled")
            try await world.waitForAll()
            world.expect(operations.count { !$0.isFinished }, is: 0, "unfinished")
            let begun = world.board.begun
            world.expect(Set(begun).count, is: begun.count, "none has run twice")
            world.expect(world.queue.operationCount, is: 0, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func severalThreadsMayWaitForAll(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            try await world.add(world.make(Self.names, held: true))
            for thread in 0..<4 {
                world.beginWaiting("waited \(thread)")
            }
            try await world.untilBegun(2)
            await world.settle()
            for name in Self.names { world.board.open(name) }
            for thread in 0..<4 { try await world.untilLogged("waited \(thread)") }
            world.expect(world.board.begun.count, is: 12, "have run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationsCompletionMayAddAnother(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let operations = world.make((0..<30).map { "\($0)" })
            for index in 1..<30 {
                operations[index - 1].completionBlock = { world.addHere(operations[index]) }
            }
            try await world.add(operations[0])
            try await world.untilFinished(operations)
            try await world.waitForAll()
            world.expect(world.board.begun, is: (0..<30).map { "\($0)" }, "order")
        }
    }

    /// `CONVOY_LONG=1` in the environment runs 100,000 operations.
    @Test(arguments: QueueSubject.queues, [8, -1])
    func aGreatManyFinish(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let bound = Duration.seconds(100)
            let count = limit < 0 ? 2_000 : LongRuns.count(4_000, long: 100_000)
            let operations = try await world.call("making", within: bound) {
                world.make((0..<count).map { "\($0)" })
            }
            try await world.add(operations, within: bound)
            try await world.waitForAll(within: bound)
            world.expect(operations.count { !$0.isFinished }, is: 0, "unfinished")
            world.expect(Set(world.board.begun).count, is: count, "have run")
            world.expect(world.queue.operationCount, is: 0, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func operationsContinueAfterTheirQueueIsReleased(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            let operations = world.make(Self.names, held: true)
            try await world.add(operations)
            try await world.untilBegun(2)
            world.letGoOfQueue()
            for name in Self.names { world.board.open(name) }
            try await world.untilFinished(operations)
            world.expect(Set(world.board.begun), is: Set(Self.names), "have run")
        }
    }

    /// Foundation's progress counts only operations that run in `main()`.
    @Test(arguments: QueueSubject.queues)
    func theProgressOfAQueueCountsNoAsynchronousOperation(subject: QueueSubject) async {
        await conform(subject) { world in
            world.queue.progress.totalUnitCount = 3
            try await world.add(world.make(["a", "b", "c"], held: true))
            try await world.untilBegun(3)
            for name in ["a", "b", "c"] { world.board.open(name) }
            try await world.waitForAll()
            world.expect(world.queue.progress.completedUnitCount, is: 0, "completedUnitCount")
            world.expect(world.queue.progress.totalUnitCount, is: 3, "totalUnitCount")
        }
    }
}
