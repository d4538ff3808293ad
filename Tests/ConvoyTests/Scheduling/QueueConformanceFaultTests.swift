// Tests cases that corelibs fails for plain operations, or passes only by luck. Only requests run here.
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceFaultTests {
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

    /// A plain barrier that is cancelled while it waits may be freed before the running operation ends.
    ///
    /// Corelibs then uses a dangling pointer to the barrier.
    @Test func cancellingAllCancelsABarrierThatWaits() async {
        await conform(.requestsOfTheManagersQueue) { world in
            let first = try await world.run("a", held: true)
            try await world.untilBegun(1)
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
            try await world.run("a", held: true)
            try await world.untilBegun(1)
            try await world.addBarrier("barrier")
            let operation = world.make("b")
            operation.cancel()
            try await world.add(operation)
            await world.settle()
            world.board.open("a")
            try await world.waitForAll()
            world.expect(operation.isFinished, "it has finished")
            world.expect(world.board.events, is: ["+a", "-a", "barrier"], "order")
        }
    }
}
