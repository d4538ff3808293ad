import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceBarrierTests {
    /// Foundation calls `isReady` while it holds the queue's lock.
    ///
    /// If the operation then searched the queue for barriers, it would wait for that lock forever.
    @Test(arguments: QueueSubject.queues)
    func twoBarriersRunInTheirOrder(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.runHeld("a")
            try await world.addBarrier("first")
            try await world.run("b", held: true)
            try await world.addBarrier("second")
            try await world.run("c")
            await world.settle()
            world.board.open("a")
            try await world.untilBegun(2)
            try await world.finish(["b"])
            world.expect(world.board.events, is: ["+a", "-a", "first", "+b", "-b", "second", "+c"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierWaitsForAChain(subject: QueueSubject) async {
        await conform(subject) { world in
            let chain = [world.make("a", held: true), world.make("b"), world.make("c")]
            for index in 1..<3 { chain[index].addDependency(chain[index - 1]) }
            try await world.add(chain.reversed())
            try await world.untilBegun(1)
            try await world.addBarrier("barrier")
            try await world.run("d")
            try await world.finish(["a"])
            world.expect(world.board.events, is: ["+a", "-a", "+b", "+c", "barrier", "+d"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierInAnEmptyQueueRunsAndHoldsBackLaterOperations(subject: QueueSubject) async {
        await conform(subject) { world in
            let gate = DispatchSemaphore(value: 0)
            try await world.call("adding a barrier") { [queue = world.queue] in
                queue.addBarrierBlock {
                    world.mark("barrier")
                    _ = gate.wait(timeout: .now() + 30)
                    world.mark("its end")
                }
            }
            try await world.untilLogged("barrier")
            try await world.run("a")
            await world.settle()
            gate.signal()
            try await world.waitForAll()
            world.expect(world.board.events, is: ["barrier", "its end", "+a"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues, [1, 2, -1])
    func aBarrierWaitsForAllBeforeItAndHoldsBackTheOthers(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let operations = world.make(QueueWorld.names, held: true)
            try await world.add(operations)
            try await world.addBarrier { "barrier, unfinished: \(operations.count { !$0.isFinished })" }
            try await world.add(world.make(["x", "y"]))
            try await world.openInTurn(12)
            try await world.waitForAll()
            world.expect(world.board.place(of: "barrier, unfinished: 0"), is: 24, "place of the barrier")
            world.expect(Set(world.board.events.suffix(2)), is: ["+x", "+y"], "the last two")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierInTheMidstOfManyParts(subject: QueueSubject) async {
        await conform(subject, limit: 4) { world in
            try await world.add(world.make((0..<200).map { "before-\($0)" }))
            try await world.addBarrier("barrier")
            try await world.add(world.make((0..<200).map { "behind-\($0)" }))
            try await world.waitForAll()
            let events = world.board.events
            world.expect(events.count, is: 401, "events")
            world.expect(world.board.place(of: "barrier"), is: 200, "place of the barrier")
            world.expect(events.prefix(200).allSatisfy { $0.hasPrefix("+before") }, "all before it came before it")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aPriorityDoesNotOvertakeABarrier(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            try await world.runHeld("a")
            let low = world.make("low")
            low.queuePriority = .veryLow
            try await world.add(low)
            try await world.addBarrier("barrier")
            let high = world.make("high")
            high.queuePriority = .veryHigh
            try await world.add(high)
            try await world.finish(["a"])
            world.expect(world.board.events, is: ["+a", "-a", "+low", "barrier", "+high"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierWaitsInASuspendedQueue(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.suspend(true)
            try await world.run("a")
            try await world.addBarrier("barrier")
            try await world.run("b")
            await world.settle()
            world.mark("resumed")
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.events, is: ["resumed", "+a", "barrier", "+b"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierThatIsDueWaitsInASuspendedQueue(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.runHeld("a")
            try await world.addBarrier("barrier")
            try await world.run("b")
            try await world.suspend(true)
            world.board.open("a")
            try await world.untilFinished([first])
            await world.settle()
            world.mark("resumed")
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.events, is: ["+a", "-a", "resumed", "barrier", "+b"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierAfterCancelledOperationsRuns(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.suspend(true)
            let operations = world.make(QueueWorld.names)
            try await world.add(operations)
            for operation in operations { operation.cancel() }
            try await world.addBarrier { "barrier, unfinished: \(operations.count { !$0.isFinished })" }
            try await world.run("b")
            try await world.suspend(false)
            try await world.waitForAll()
            world.expect(world.board.events, is: ["barrier, unfinished: 0", "+b"], "order")
        }
    }

    /// The queue is suspended and has no running operation when the barrier is cancelled.
    ///
    /// If a barrier is cancelled while it waits for operations, corelibs uses a pointer to the barrier without
    /// retaining it.
    @Test(arguments: QueueSubject.queues)
    func cancellingAllCancelsABarrierToo(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.runHeld("a")
            try await world.addBarrier("barrier")
            try await world.run("b")
            try await world.suspend(true)
            world.board.open("a")
            try await world.untilFinished([first])
            try await world.cancelAll()
            try await world.suspend(false)
            try await world.waitForAll()
            try await world.run("c")
            try await world.waitForAll()
            await world.settle()
            world.expect(world.board.events, is: ["+a", "-a", "+c"], "neither the barrier nor b has run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func waitingForAllWaitsForABarrier(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.runHeld("a")
            try await world.addBarrier("barrier")
            world.beginWaiting()
            try await world.open("a")
            world.expect(world.board.events, is: ["+a", "-a", "barrier", "waited"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierIsNotCounted(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.runHeld("a")
            try await world.addBarrier("barrier")
            let second = try await world.run("b")
            world.expect(world.queue.operationCount, is: 2, "operationCount")
            world.expect(world.queue.operations, is: [first, second], "operations")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aBarrierMayAddToItsQueue(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.runHeld("a")
            let inner = world.make("b")
            try await world.call("adding a barrier") { [queue = world.queue] in
                queue.addBarrierBlock {
                    world.mark("barrier")
                    world.addHere(inner)
                }
            }
            world.board.open("a")
            try await world.untilFinished([inner])
            try await world.waitForAll()
            world.expect(world.board.events, is: ["+a", "-a", "barrier", "+b"], "order")
        }
    }

    // MARK: What corelibs fails for plain operations, or passes only by luck

    /// A plain barrier that is cancelled while it waits may be freed before the running operation ends.
    ///
    /// Corelibs then uses a dangling pointer to the barrier.
    @Test func cancellingAllCancelsABarrierThatWaits() async {
        await conform(.requestsOfTheManagersQueue) { world in
            let first = try await world.runHeld("a")
            try await world.addBarrier("barrier")
            let second = try await world.run("b")
            try await world.cancelAll()
            try await world.untilFinished([first, second])
            try await world.waitForAll()
            try await world.run("c")
            try await world.waitForAll()
            world.expect(world.board.events, is: ["+a", "+c"], "neither the barrier nor b has run")
        }
    }

    /// For a cancelled plain operation, corelibs locks its queue a second time, and blocks itself.
    @Test(arguments: QueueSubject.queuedRequests)
    func aCancelledOperationAddedAfterABarrierEnds(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.runHeld("a")
            try await world.addBarrier("barrier")
            let operation = world.make("b")
            operation.cancel()
            try await world.add(operation)
            try await world.finish(["a"])
            world.expect(operation.isFinished, "it has finished")
            world.expect(world.board.events, is: ["+a", "-a", "barrier"], "order")
        }
    }
}
