import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceLimitTests {
    @Test(arguments: QueueSubject.queues, [1, 2, 3])
    func noMoreRunThanTheLimit(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let operations = world.make(QueueWorld.names, held: true)
            for operation in operations { world.board.watch(operation) }
            try await world.add(operations)
            for done in 0..<12 {
                try await world.untilBegun(min(12, done + limit))
                await world.settle()
                world.expect(operations.count { $0.isExecuting } <= limit, "isExecuting after \(done)")
                world.board.open(world.board.begun[done])
            }
            try await world.waitForAll()
            world.expect(world.board.mostRunning, is: limit, "the most at once")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func withoutALimitAllRun(subject: QueueSubject) async {
        await conform(subject) { world in
            let names = (0..<40).map { "\($0)" }
            try await world.runHeld(names, begun: 40)
            try await world.finish(names)
        }
    }

    @Test(arguments: QueueSubject.queues, [(1, 3), (2, 12), (1, -1)])
    func aRaisedLimitStartsMoreAtOnce(subject: QueueSubject, limits: (low: Int, high: Int)) async {
        await conform(subject, limit: limits.low) { world in
            try await world.runHeld(begun: limits.low)
            await world.settle()
            world.expect(world.board.begun.count, is: limits.low, "begun at the low limit")
            try await world.call("raising") { [queue = world.queue] in queue.maxConcurrentOperationCount = limits.high }
            let most = limits.high < 0 ? 12 : limits.high
            try await world.untilBegun(most)
            await world.settle()
            world.expect(world.board.begun.count, is: most, "begun at the high limit")
            try await world.finish(QueueWorld.names)
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aLoweredLimitHoldsFromThenOn(subject: QueueSubject) async {
        await conform(subject, limit: 3) { world in
            try await world.runHeld(begun: 3)
            try await world.call("lowering") { [queue = world.queue] in queue.maxConcurrentOperationCount = 1 }
            for done in 0..<12 {
                try await world.untilBegun(max(min(3, done + 3), done + 1))
                await world.settle()
                world.expect(world.board.begun.count, is: max(3, done + 1), "begun after \(done)")
                world.board.open(world.board.begun[done])
            }
            try await world.waitForAll()
        }
    }

    /// Lets the queue start nothing, or start operations again.
    private func hold(_ world: QueueWorld, _ holds: Bool, bySuspension: Bool) async throws {
        try await world.call(holds ? "holding" : "continuing") { [queue = world.queue] in
            if bySuspension { queue.isSuspended = holds } else { queue.maxConcurrentOperationCount = holds ? 0 : 2 }
        }
    }

    @Test(arguments: QueueSubject.queues, [true, false])
    func aSuspendedQueueAndALimitOfZeroStartNothing(subject: QueueSubject, bySuspension: Bool) async {
        await conform(subject) { world in
            try await hold(world, true, bySuspension: bySuspension)
            let operations = world.make(QueueWorld.names)
            try await world.add(operations)
            await world.settle()
            world.expect(world.queue.isSuspended, is: bySuspension, "isSuspended")
            world.expect(operations.allSatisfy { !$0.isExecuting && !$0.isFinished }, "none has started")
            world.mark("continued")
            try await hold(world, false, bySuspension: bySuspension)
            try await world.waitForAll()
            world.expect(world.board.events.first == "continued", "nothing ran before")
            world.expect(world.board.begun.count, is: 12, "have run")
        }
    }

    @Test(arguments: QueueSubject.queues, [true, false])
    func operationsThatRunWhenAQueueIsHeldEnd(subject: QueueSubject, bySuspension: Bool) async {
        await conform(subject, limit: 2) { world in
            let operations = try await world.runHeld(begun: 2)
            try await hold(world, true, bySuspension: bySuspension)
            let running = world.board.begun
            for name in QueueWorld.names { world.board.open(name) }
            try await world.until("two finished") { operations.count { $0.isFinished } >= 2 }
            await world.settle()
            world.expect(world.board.begun, is: running, "none was started")
            try await hold(world, false, bySuspension: bySuspension)
            try await world.waitForAll()
            world.expect(world.board.begun.count, is: 12, "have run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aQueueThatIsSuspendedAndResumedOftenRunsAllOnce(subject: QueueSubject) async {
        await conform(subject, limit: 3) { world in
            let names = (0..<300).map { "\($0)" }
            let operations = world.make(names)
            async let toggled: Void = world.call("toggling") { [queue = world.queue] in
                for count in 0..<200 { queue.isSuspended = count % 2 == 0 }
            }
            try await world.add(operations)
            try await toggled
            try await world.waitForAll()
            world.expect(world.board.begun.count == 300 && Set(world.board.begun).count == 300, "each has run once")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func prioritiesDecideTheOrder(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            try await world.suspend(true)
            let priorities: [Operation.QueuePriority] = [.low, .veryHigh, .normal, .veryLow, .high]
            for priority in priorities {
                let operation = world.make("\(priority.rawValue)")
                operation.queuePriority = priority
                try await world.add(operation)
            }
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.begun, is: ["8", "4", "0", "-4", "-8"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues, [nil, Operation.QueuePriority.high])
    func thoseOfOnePriorityRunInTheOrderOfAdding(subject: QueueSubject, priority: Operation.QueuePriority?) async {
        await conform(subject, limit: 1) { world in
            try await world.suspend(true)
            let operations = world.make(QueueWorld.names)
            if let priority { for operation in operations { operation.queuePriority = priority } }
            try await world.add(operations)
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.begun, is: QueueWorld.names, "order")
        }
    }

    @Test(arguments: QueueSubject.queues, [true, false])
    func aPriorityThatIsChangedWhileWaitingCounts(subject: QueueSubject, isRaised: Bool) async {
        await conform(subject, limit: 1) { world in
            let operations = [world.make("held", held: true)] + world.make(["a", "b", "c"])
            try await world.add(operations)
            try await world.untilBegun(1)
            operations[isRaised ? 3 : 1].queuePriority = isRaised ? .veryHigh : .low
            try await world.finish(["held"])
            world.expect(world.board.begun, is: ["held"] + (isRaised ? ["c", "a", "b"] : ["b", "c", "a"]), "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aPriorityDoesNotOvertakeADependency(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            try await world.suspend(true)
            let (low, high) = (world.make("low"), world.make("high"))
            (low.queuePriority, high.queuePriority) = (.veryLow, .veryHigh)
            high.addDependency(low)
            try await world.add(high, low, world.make("normal"))
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.begun, is: ["normal", "low", "high"], "order")
        }
    }
}
