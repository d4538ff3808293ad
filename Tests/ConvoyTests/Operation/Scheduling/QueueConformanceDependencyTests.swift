import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceDependencyTests {
    @Test(arguments: QueueSubject.queues, [true, false])
    func aBlockWaitsForAnOperation(subject: QueueSubject, isInTheSameQueue: Bool) async {
        await conform(subject) { world in
            let operation = world.make("a", held: true)
            let block = world.kept(BlockOperation { world.mark("block") })
            block.addDependency(operation)
            let queue = isInTheSameQueue ? world.queue : OperationQueue()
            try await world.call("adding") { queue.addOperation(block) }
            try await world.add(operation)
            try await world.untilBegun(1)
            await world.settle()
            world.board.open("a")
            try await world.untilFinished([operation, block])
            world.expect(world.board.events, is: ["+a", "-a", "block"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues, [true, false])
    func anOperationWaitsForABlock(subject: QueueSubject, isInTheSameQueue: Bool) async {
        await conform(subject) { world in
            let operation = world.make("a")
            let block = world.kept(BlockOperation { world.mark("block") })
            operation.addDependency(block)
            try await world.add(operation)
            await world.settle()
            world.expect(world.board.events, is: [], "nothing has run")
            let queue = isInTheSameQueue ? world.queue : OperationQueue()
            try await world.call("adding") { queue.addOperation(block) }
            try await world.waitForAll()
            world.expect(world.board.events, is: ["block", "+a"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationWaitsForOneOfAnotherQueue(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            await conform(subject, limit: 1, promise: "anOperationWaitsForOneOfAnotherQueue") { other in
                let (first, second) = (other.make("a", held: true), world.make("b"))
                second.addDependency(first)
                // Both worlds retain both operations, because either world may end first.
                _ = (world.kept(first), other.kept(second))
                try await world.add(second, world.make("c"))
                try await other.add(first)
                try await other.untilBegun(1)
                try await world.untilBegun(1)
                await world.settle()
                world.expect(world.board.begun, is: ["c"], "what is ready goes first")
                other.board.open("a")
                try await other.waitForAll()
                try await world.waitForAll()
                world.expect(world.board.begun, is: ["c", "b"], "order")
            }
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationFollowsACancelledOne(subject: QueueSubject) async {
        await conform(subject) { world in
            let (first, second) = (world.make("a"), world.make("b"))
            second.addDependency(first)
            first.cancel()
            try await world.add(second)
            // A request that was cancelled, and that no queue has, blocks no other request (`DependencyTests`).
            if subject.isPlain {
                await world.settle()
                world.expect(world.board.begun, is: [], "it waits for the end of the cancelled one")
            }
            try await world.add(first)
            try await world.waitForAll()
            world.expect(world.board.begun, is: ["b"], "have run")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationFollowsAFinishedOne(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.run("a")
            try await world.waitForAll()
            let second = world.make("b")
            second.addDependency(first)
            world.expect(second.isReady, "it is ready")
            try await world.add(second)
            try await world.waitForAll()
            world.expect(world.board.begun, is: ["a", "b"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues, [1, 4, -1])
    func aFanOutWaitsForItsRoot(subject: QueueSubject, limit: Int) async {
        await conform(subject, limit: limit) { world in
            let (root, last) = (world.make("root", held: true), world.make("last"))
            let leaves = world.make((0..<200).map { "\($0)" })
            for leaf in leaves {
                leaf.addDependency(root)
                last.addDependency(leaf)
            }
            try await world.add([last] + leaves + [root])
            try await world.untilBegun(1)
            try await world.finish(["root"])
            let begun = world.board.begun
            world.expect(Array(world.board.events.prefix(2)), is: ["+root", "-root"], "the root is the first")
            world.expect(begun.last == "last" && begun.count == 202, "the last is the last")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aDependencyThatIsAddedWhileWaitingIsWaitedFor(subject: QueueSubject) async {
        await conform(subject) { world in
            try await world.suspend(true)
            let (first, second) = (world.make("a"), world.make("b", held: true))
            try await world.add(first, second)
            first.addDependency(second)
            try await world.suspend(false)
            try await world.untilBegun(1)
            try await world.finish(["b"])
            world.expect(world.board.events, is: ["+b", "-b", "+a"], "order")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func anOperationThatWaitsForADependencyUsesNoSlot(subject: QueueSubject) async {
        await conform(subject, limit: 1) { world in
            let never = world.make("never")
            let blocked = world.make(QueueWorld.names)
            for operation in blocked { operation.addDependency(never) }
            try await world.add(blocked)
            let free = try await world.run("free")
            try await world.untilFinished([free])
            world.expect(world.board.begun, is: ["free"], "have run")
            try await world.add(never)
            try await world.waitForAll()
            world.expect(world.board.begun.count, is: 14, "have run in the end")
        }
    }

    @Test(arguments: QueueSubject.queues)
    func aChainThroughBlocksAndOperationsRunsInItsOrder(subject: QueueSubject) async {
        await conform(subject, limit: 2) { world in
            var chain: [Operation] = []
            for index in 0..<20 {
                let isBlock = index % 2 == 0
                let next =
                    isBlock ? world.kept(BlockOperation { world.mark("+\(index)") }) : world.make("\(index)")
                if let last = chain.last { next.addDependency(last) }
                chain.append(next)
            }
            for operation in chain.reversed() { try await world.add(operation) }
            try await world.waitForAll()
            world.expect(world.board.begun, is: (0..<20).map { "\($0)" }, "order")
        }
    }

    // MARK: What corelibs fails for plain operations, or passes only by luck

    /// Corelibs still counts a removed dependency, so a plain operation would never start.
    @Test(arguments: QueueSubject.queuedRequests, [true, false])
    func aRemovedDependencyIsNotWaitedFor(subject: QueueSubject, isAdded: Bool) async {
        await conform(subject) { world in
            let (never, operation) = (world.make("never"), world.make("a"))
            operation.addDependency(never)
            if isAdded { try await world.add(operation) }
            operation.removeDependency(never)
            world.expect(operation.dependencies, is: [], "dependencies")
            if !isAdded { try await world.add(operation) }
            try await world.untilFinished([operation])
        }
    }

    /// A cancelled plain operation may be freed before its dependency ends.
    ///
    /// Corelibs then uses a dangling pointer to the operation.
    @Test(arguments: QueueSubject.queuedRequests)
    func aDependentMayGoBeforeItsDependencyEnds(subject: QueueSubject) async {
        await conform(subject) { world in
            let first = try await world.run("a", held: true)
            world.board.hold("plain")
            let second = world.kept(PlainOperation("plain", world.board))
            OperationQueue().addOperation(second)
            try await world.untilBegun(2)
            for dependency in [first, second] {
                try await world.call("a life") { [manager = world.manager] in
                    guard let dependent = manager?.operation(.stub("dependent")) else { return }
                    dependent.addDependency(dependency)
                    world.addHere(dependent)
                    dependent.cancel()
                    dependent.waitUntilFinished()
                }
            }
            await world.settle()
            for name in ["a", "plain"] { world.board.open(name) }
            try await world.untilFinished([first, second])
            try await world.waitForAll()
            world.expect(Set(world.board.begun), is: ["a", "plain"], "have run")
        }
    }
}
