import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceTests {
    @Test(arguments: QueueSubject.queues, [1, 2, -1])
    func waitingForAllEndsWhenAllHaveFinished(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let first = world.make("first", held: true)
            let operations = [first] + world.make(QueueWorld.names)
            try await world.add(operations)
            try await world.untilBegun(1)
            let queue = world.queue
            world.begin("waited") {
                queue.waitUntilAllOperationsAreFinished()
                world.board.log.record("unfinished: \(operations.count { !$0.isFinished })")
            }
            try await world.open("first")
            world.expect(world.board.events.contains("unfinished: 0"), "all had finished")
            let places = (world.board.place(of: "-first") ?? .max, world.board.place(of: "unfinished: 0") ?? 0)
            world.expect(places.0 < places.1, "it did not return before the last was opened")
            world.expect(world.queue.operationCount, is: 0, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues, [1, -1])
    func waitingForAChainOfThirty(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let chain = world.make((0..<30).map { "\($0)" })
            for index in 1..<30 { chain[index].addDependency(chain[index - 1]) }
            try await world.add(chain.reversed())
            try await world.waitForAll()
            world.expect(world.board.begun, is: (0..<30).map { "\($0)" }, "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingIncludesADependencyInAnotherQueue(subject: QueueSubject) async {
        await conform(subject) { world in
            let (other, operation) = (OperationQueue(), world.make("a"))
            world.board.hold("dependency")
            let dependency = world.kept(PlainOperation("dependency", world.board))
            operation.addDependency(dependency)
            try await world.add(operation)
            other.addOperation(dependency)
            world.beginWaiting()
            try await world.untilBegun(1)
            try await world.open("dependency")
            world.expect(world.board.events, is: ["+dependency", "-dependency", "+a", "waited"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingIncludesOperationsAddedMeanwhile(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.runHeld("first")
            world.beginWaiting()
            await world.settle()
            let second = try await world.run("second", held: true)
            try await world.untilBegun(2)
            world.board.open("first")
            try await world.untilFinished([first])
            try await world.open("second")
            world.expect(world.board.events.last == "waited", "it waited for the second")
            world.expect(second.isFinished, "the second has finished")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingForASuspendedQueueEndsAfterItIsResumed(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.suspend(true)
            try await world.add(world.make(QueueWorld.names))
            world.beginWaiting()
            await world.settle()
            world.mark("resumed")
            try await world.suspend(false)
            try await world.untilLogged("waited")
            world.expect(world.board.events.first == "resumed", "nothing ran before it was resumed")
            world.expect(world.board.begun.count, is: 12, "have run")
            world.expect(world.board.events.last == "waited", "the wait was the last to end")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingEndsWhereOneIsCancelled(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let operations = [world.make("a", held: true), world.make("b"), world.make("c")]
            try await world.add(operations)
            try await world.untilBegun(1)
            operations[1].cancel()
            world.beginWaiting()
            try await world.open("a")
            world.expect(world.board.events, is: ["+a", "-a", "+c", "waited"], "order")
            world.expect(operations.allSatisfy(\.isFinished), "all have finished")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingForOneEndsWhenThatHasFinished(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let operations = [world.make("a", held: true), world.make("b"), world.make("c", held: true)]
            try await world.add(operations)
            world.begin("waited") { operations[1].waitUntilFinished() }
            try await world.untilBegun(1)
            try await world.open("a")
            world.expect(operations[1].isFinished && !operations[2].isFinished, "b has finished, c has not")
            let places = (world.board.place(of: "-a") ?? .max, world.board.place(of: "waited") ?? 0)
            world.expect(places.0 < places.1, "it waited for its turn")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingForAnEmptyQueueOrForOneThatHasFinishedReturns(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.waitForAll()
            world.expect(world.queue.operationCount, is: 0, "operationCount")
            let operation = try await world.run("a")
            try await world.untilFinished([operation])
            try await world.call("waiting for one") { operation.waitUntilFinished() }
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingForOneThatIsCancelledReturns(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let (first, second) = (world.make("a", held: true), world.make("b"))
            try await world.add(first, second)
            try await world.untilBegun(1)
            world.begin("waited") { second.waitUntilFinished() }
            second.cancel()
            try await world.open("a")
            world.expect(world.board.begun, is: ["a"], "b was not run")
        }
    }

    @Test(arguments: QueueSubject.added)
    func addingSeveralCanWaitForThem(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            let operations = [world.make("held", held: true)] + world.make(QueueWorld.names)
            world.begin("waited") { [queue = world.queue] in
                queue.addOperations(operations, waitUntilFinished: true)
                world.board.log.record("unfinished: \(operations.count { !$0.isFinished })")
            }
            try await world.untilBegun(13)
            try await world.open("held")
            world.expect(Array(world.board.events.suffix(2)), is: ["unfinished: 0", "waited"], "end")
        }
    }

    @Test(arguments: QueueSubject.added)
    func addingSeveralNeedNotWait(subject: QueueSubject) async {
        await conform(subject) { world in
            let operations = world.make(QueueWorld.names, held: true)
            try await world.call("adding") { [queue = world.queue] in
                queue.addOperations(operations, waitUntilFinished: false)
            }
            try await world.untilBegun(12)
            try await world.finish(QueueWorld.names)
        }
    }

    @Test(arguments: QueueSubject.queues)
    func operationsAtALimitAreCountedAndListedInTheirOrder(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            let operations = try await world.runHeld(begun: 2)
            world.expect(world.queue.operations == operations, "the list has all, in their order")
            world.expect(world.queue.operationCount, is: 12, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func operationsOfASuspendedQueueAreListed(subject: QueueSubject) async {
        await conform(subject) { world in
            world.queue.isSuspended = true
            let operations = world.make(QueueWorld.names)
            try await world.add(operations)
            world.expect(world.queue.operations == operations, "the list has all, in their order")
            world.expect(world.queue.operationCount, is: 12, "operationCount")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func finishedOperationsAreNeitherListedNorCounted(subject: QueueSubject) async {
        await conform(subject) { world in
            let kept = try await world.run("kept", held: true)
            let operations = world.make(QueueWorld.names)
            try await world.add(operations)
            try await world.untilFinished(operations)
            try await world.until("one is left") { world.queue.operationCount == 1 }
            world.expect(world.queue.operations, is: [kept], "operations")
            try await world.finish(["kept"])
            world.expect(world.queue.operations, is: [], "operations after the end")
            world.expect(world.queue.operationCount, is: 0, "operationCount after the end")
        }
    }

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
            try await world.add(world.make(QueueWorld.names, held: true))
            for thread in 0..<4 {
                world.beginWaiting("waited \(thread)")
            }
            try await world.untilBegun(2)
            await world.settle()
            for name in QueueWorld.names { world.board.open(name) }
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
            let operations = try await world.runHeld(begun: 2)
            world.letGoOfQueue()
            for name in QueueWorld.names { world.board.open(name) }
            try await world.untilFinished(operations)
            world.expect(Set(world.board.begun), is: Set(QueueWorld.names), "have run")
        }
    }

    /// Foundation's progress counts only operations that run in `main()`.
    @Test(arguments: QueueSubject.queues)
    func theProgressOfAQueueCountsNoAsynchronousOperation(subject: QueueSubject) async {
        await conform(subject) { world in
            world.queue.progress.totalUnitCount = 3
            try await world.runHeld(["a", "b", "c"], begun: 3)
            try await world.finish(["a", "b", "c"])
            world.expect(world.queue.progress.completedUnitCount, is: 0, "completedUnitCount")
            world.expect(world.queue.progress.totalUnitCount, is: 3, "totalUnitCount")
        }
    }
}
