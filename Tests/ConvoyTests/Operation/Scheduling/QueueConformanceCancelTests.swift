import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceCancelTests {
    /// If the queue is not suspended, a cancelled operation frees its slot.
    ///
    /// The next operation may start before `cancelAllOperations()` reaches it.
    @Test(arguments: QueueSubject.queues, [true, false])
    func cancellingAllReachesRunningAndWaitingOperations(subject: QueueSubject, isSuspended: Bool) async {
        await conform(subject, limit: 2) { world in
            let operations = try await world.runHeld(begun: 2)
            if isSuspended { try await world.suspend(true) }
            try await world.cancelAll()
            world.expect(operations.count { $0.isCancelled }, is: 12, "cancelled")
            await world.settle()
            if isSuspended {
                world.expect(operations.count { $0.isFinished }, is: 2, "finished while suspended")
                try await world.suspend(false)
            }
            try await world.untilFinished(operations)
            try await world.waitForAll()
            if isSuspended { world.expect(world.board.begun.count, is: 2, "have run") }
            world.expect(world.queue.operationCount, is: 0, "operationCount")
        }
    }

    /// Foundation cancels one operation after the other, and each cancelled one frees its place in the queue.
    ///
    /// Whenever the system interrupts that loop for long between two operations, the queue fills its places once more.
    /// So the bound is wide; without a wait before the next start, hundreds are sent.
    ///
    /// - Parameter limit: the limit of the queue.
    @Test(arguments: QueueSubject.queuedRequests, [1, 2, 6])
    func cancellingAllSendsHardlyAnyMore(subject: QueueSubject, limit: Int) async {
        for _ in 0..<LongRuns.count(3, long: 100) {
            let (server, queue) = (StubServer.held(), OperationQueue())
            let manager = server.manager(queue: subject == .requestsEnqueuedInAQueue ? queue : nil)
            let used = subject == .requestsOfTheManagersQueue ? manager.queue : queue
            used.maxConcurrentOperationCount = limit
            let operations = (0..<1_000).map { manager.operation(.stub("\($0)")) }
            for operation in operations {
                if subject == .requestsAddedToAQueue {
                    queue.addOperation(operation)
                } else {
                    manager.enqueue(operation)
                }
            }
            await server.exchanges.wait(count: limit)
            await offPool { used.cancelAllOperations() }
            await look { operations.allSatisfy(\.isFinished) }
            await manager.drain()
            #expect(server.exchanges.count - limit <= 100)
            #expect(operations.allSatisfy { $0.error?.code == .cancelled })
        }
    }

    @Test(arguments: QueueSubject.queues)
    func cancellingAllOfASuspendedQueueRunsNone(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.suspend(true)
            let operations = world.make(QueueWorld.names)
            try await world.add(operations)
            try await world.cancelAll()
            world.expect(operations.count { $0.isCancelled }, is: 12, "cancelled")
            await world.settle()
            world.expect(operations.count { $0.isFinished }, is: 0, "finished while suspended")
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(operations.allSatisfy(\.isFinished), "all have finished")
            world.expect(world.board.begun, is: [], "none has run")
        }
    }

    @Test(arguments: QueueSubject.queues, [true, false])
    func cancellingAllTwiceIsHarmless(subject: QueueSubject, isAtOnce: Bool) async {
        await conform(subject, limit: 2) { world in
            let operations = try await world.runHeld((0..<200).map { "\($0)" }, begun: 2)
            async let one: Void = world.cancelAll()
            if !isAtOnce { try await one }
            try await world.cancelAll()
            try await one
            try await world.waitForAll()
            world.expect(operations.allSatisfy { $0.isCancelled && $0.isFinished }, "all are cancelled and finished")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aQueueIsUsableAfterAllWereCancelled(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            // The call also returns for an empty queue.
            try await world.cancelAll()
            try await world.runHeld(begun: 2)
            try await world.cancelAll()
            let later = world.make((0..<12).map { "later-\($0)" })
            try await world.add(later)
            try await world.waitForAll()
            world.expect(later.allSatisfy { $0.isFinished && !$0.isCancelled }, "the later ones are not cancelled")
            world.expect(world.board.begun.count { $0.hasPrefix("later") }, is: 12, "have run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationCancelledBeforeItIsAddedDoesNotRun(subject: QueueSubject) async {
        await conform(subject) { world in
            let operation = world.make("a")
            operation.cancel()
            world.expect(operation.isCancelled && !operation.isFinished, "it is cancelled, and has not finished")
            try await world.add(operation)
            try await world.waitForAll()
            world.expect(operation.isFinished, "it has finished")
            world.expect(world.board.begun, is: [], "it has not run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aCancelledOperationWaitsForNoDependency(subject: QueueSubject) async {
        await conform(subject) { world in
            let (first, second) = (world.make("a", held: true), world.make("b"))
            second.addDependency(first)
            try await world.add(first, second)
            try await world.untilBegun(1)
            second.cancel()
            try await world.untilFinished([second])
            world.expect(!first.isFinished, "the dependency has not finished")
            try await world.finish(["a"])
            world.expect(world.board.begun, is: ["a"], "have run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func cancellingARunningOperationFreesItsSlot(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let (first, second) = (world.make("a", held: true), world.make("b"))
            try await world.add(first, second)
            try await world.untilBegun(1)
            first.cancel()
            try await world.waitForAll()
            world.expect(world.board.begun, is: ["a", "b"], "have run")
            world.expect(first.isCancelled && !second.isCancelled, "the first alone is cancelled")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func flagsThroughALife(subject: QueueSubject) async {
        await conform(subject) { world in
            let operation = world.make("a", held: true)
            func flags() -> [Bool] {
                [operation.isReady, operation.isExecuting, operation.isFinished, operation.isCancelled]
            }
            world.expect(flags(), is: [true, false, false, false], "before adding")
            world.queue.isSuspended = true
            try await world.add(operation)
            await world.settle()
            world.expect(flags(), is: [true, false, false, false], "while suspended")
            world.queue.isSuspended = false
            try await world.untilBegun(1)
            world.expect(flags(), is: [true, true, false, false], "while running")
            try await world.finish(["a"])
            world.expect(flags(), is: [true, false, true, false], "after the end")
            operation.cancel()
            world.expect(!operation.isCancelled, "what has finished is not cancelled")
            world.expect(operation.isAsynchronous, "isAsynchronous")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationIsReadyWhenItsDependenciesHaveFinished(subject: QueueSubject) async {
        await conform(subject) { world in
            let (first, second) = (world.make("a", held: true), world.make("b", held: true))
            second.addDependency(first)
            world.expect(!second.isReady && second.dependencies == [first], "it waits for one")
            try await world.add(second, first)
            try await world.untilBegun(1)
            await world.settle()
            world.expect(!second.isReady && !second.isExecuting, "not ready while the dependency runs")
            world.board.open("a")
            try await world.untilBegun(2)
            world.expect(second.isReady && second.isExecuting, "ready, and running")
            try await world.finish(["b"])
        }
    }

    @Test(arguments: QueueSubject.queues, ["finished", "cancelled", "cancelled before"])
    func theCompletionBlockIsCalledOnce(subject: QueueSubject, end: String) async {
        await conform(subject) { world in
            let operation = world.make("a", held: true)
            operation.completionBlock = { world.mark("completed") }
            if end == "cancelled before" { operation.cancel() }
            try await world.add(operation)
            if end != "cancelled before" { try await world.untilBegun(1) }
            if end == "cancelled" { operation.cancel() }
            if end == "finished" { world.board.open("a") }
            try await world.untilLogged("completed")
            try await world.waitForAll()
            operation.cancel()
            await world.settle()
            world.expect(world.board.events.count { $0 == "completed" }, is: 1, "calls")
            world.expect(operation.isFinished, "it has finished")
        }
    }
}
