import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct QueueConformanceManagerTests {
    private static let names = (0..<6).map { "\($0)" }

    /// Waits until the manager knows this number of operations.
    ///
    /// The manager learns of an operation in a foreign queue when that queue starts the operation.
    private func untilKnown(_ count: Int, in world: QueueWorld) async throws {
        try await world.until("\(count) known to the manager") { world.manager?.operations.count == count }
    }

    private func code(_ operation: Operation) -> RequestError.Code? { (operation as? AnyRequestOperation)?.error?.code }

    @Test(arguments: QueueSubject.requests, [true, false])
    func noMoreRunThanTheLimitOfAHostOrOfTheManager(subject: QueueSubject, isOfAHost: Bool) async {
        let limit = isOfAHost ? 2 : 3
        let configure = { (configuration: inout RequestManager.Configuration) in
            if isOfAHost {
                configuration.maxConcurrentPerHost = limit
            } else {
                configuration.maxConcurrentOperationCount = limit
            }
        }
        await conform(subject, configure: configure) { world in
            let operations = world.make((0..<30).map { "\($0)" }, held: true)
            try await world.add(operations)
            try await world.openInTurn(30, atOnce: limit)
            try await world.untilFinished(operations)
            world.expect(world.board.mostRunning, is: limit, "the most at once")
            world.expect(world.board.begun.count, is: 30, "sent")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func aChangedLimitOfTheManagerCounts(subject: QueueSubject) async throws {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = try await world.runHeld(Self.names, begun: 2)
            await world.settle()
            world.expect(world.board.begun.count, is: 2, "sent at the low limit")
            try #require(world.manager).maxConcurrentOperationCount = 4
            try await world.untilBegun(4)
            await world.settle()
            world.expect(world.board.begun.count, is: 4, "sent at the high limit")
            for name in Self.names { world.board.open(name) }
            try await world.untilFinished(operations)
        }
    }

    @Test func requestsOfAllKindsShareTheManagersLimit() async {
        await conform(.requestsEnqueuedInAQueue, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = world.make((0..<12).map { "\($0)" }, held: true)
            let other = OperationQueue()
            for (index, operation) in operations.enumerated() {
                switch index % 4 {
                case 0: try await world.add(operation)
                case 1: try await world.call("adding") { [queue = world.queue] in queue.addOperation(operation) }
                case 2: try await world.call("adding") { other.addOperation(operation) }
                default: try await world.call("starting") { operation.start() }
                }
            }
            try await world.openInTurn(12, atOnce: 2)
            try await world.untilFinished(operations)
            world.expect(world.board.mostRunning, is: 2, "the most at once")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func aRateIsKept(subject: QueueSubject) async {
        let clock = VirtualClock()
        await conform(subject, clock: clock, configure: { $0.requestRate = .perSecond(10) }) { world in
            let operations = world.make(Self.names)
            try await world.add(operations)
            for count in 1...6 {
                try await world.until("\(count) sent by then") {
                    // Advancing by zero fires timers that were set for a time in the past.
                    clock.advance(by: .zero)
                    return world.board.begun.count >= count
                }
                await world.settle()
                world.expect(world.board.begun.count, is: count, "sent after \(clock.elapsed)")
                clock.advance(by: .milliseconds(100))
            }
            try await world.untilFinished(operations)
        }
    }

    @Test(arguments: QueueSubject.requests)
    func prioritiesDecideTheNextOperation(subject: QueueSubject) async {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 1 }) { world in
            let first = try await world.runHeld("held")
            let (low, high) = (world.make("low"), world.make("high"))
            (low.queuePriority, high.queuePriority) = (.low, .high)
            try await world.add(low, world.make("normal"), high)
            try await untilKnown(4, in: world)
            try await world.until("all but one wait for a slot") {
                world.operations.count { operation in
                    let request = operation as? AnyRequestOperation
                    return request.flatMap { world.manager?.why($0) }?.hasPrefix("waits for a slot") == true
                } == 3
            }
            world.board.open("held")
            try await world.untilFinished([first] + world.operations)
            world.expect(world.board.begun, is: ["held", "high", "normal", "low"], "order")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func cancellingAllReachesAll(subject: QueueSubject) async {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = try await world.runHeld(Self.names, begun: 2)
            try await untilKnown(6, in: world)
            try await world.call("cancelling") { [manager = world.manager] in manager?.cancelAll() }
            try await world.untilFinished(operations)
            await world.settle()
            world.expect(world.board.begun.count, is: 2, "sent")
            world.expect(operations.allSatisfy { code($0) == .cancelled }, "all end as cancelled")
            let later = try await world.run("later")
            try await world.untilFinished([later])
            world.expect(code(later), is: nil, "error of a later one")
        }
    }

    /// Unlike Foundation's queues, the manager's queue starts no operation that will be cancelled next.
    @Test(arguments: [2, -1])
    func cancellingAllOfTheManagersQueueSendsNoMore(limit: Int) async {
        await conform(.requestsOfTheManagersQueue, limit: limit, configure: { $0.maxConcurrentOperationCount = 2 }) {
            world in
            let operations = try await world.runHeld((0..<12).map { "\($0)" }, begun: 2)
            try await world.cancelAll()
            try await world.untilFinished(operations)
            await world.settle()
            world.expect(world.board.begun.count, is: 2, "sent")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func cancellingATagReachesThoseAlone(subject: QueueSubject) async {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = Self.names.enumerated().map { index, name in
                world.make(name, held: true, tag: index % 2 == 0 ? "even" : "odd")
            }
            try await world.add(operations)
            try await world.untilBegun(2)
            try await untilKnown(6, in: world)
            try await world.call("cancelling") { [manager = world.manager] in manager?.cancelAll(tagged: "even") }
            for name in Self.names { world.board.open(name) }
            try await world.untilFinished(operations)
            for (index, operation) in operations.enumerated() {
                world.expect(code(operation), is: index % 2 == 0 ? .cancelled : nil, "error of \(index)")
            }
        }
    }

    @Test(arguments: QueueSubject.requests)
    func theManagerListsAll(subject: QueueSubject) async {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = world.make(Self.names, held: true)
            try await world.add(operations)
            try await untilKnown(6, in: world)
            let listed: [Operation] = world.manager?.operations ?? []
            // A foreign queue starts the operations in any order.
            if subject != .requestsAddedToAQueue { world.expect(listed, is: operations, "operations") }
            world.expect(Set(listed), is: Set(operations), "operations in any order")
            for name in Self.names { world.board.open(name) }
            try await world.untilFinished(operations)
            try await untilKnown(0, in: world)
        }
    }

    @Test(arguments: QueueSubject.requests)
    func drainingWaitsForAll(subject: QueueSubject) async throws {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let operations = world.make(Self.names, held: true)
            try await world.add(operations)
            try await untilKnown(6, in: world)
            let manager = try #require(world.manager)
            let drain = Task {
                await manager.drain()
                world.mark("drained, unfinished: \(operations.count { !$0.isFinished })")
            }
            defer { drain.cancel() }
            try await world.openInTurn(6, atOnce: 2)
            try await world.until("drained") { world.board.events.last?.hasPrefix("drained") == true }
            world.expect(world.board.events.last == "drained, unfinished: 0", "all had finished")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func whyNamesTheReasonOfAWait(subject: QueueSubject) async throws {
        await conform(subject, configure: { $0.maxConcurrentPerHost = 1 }) { world in
            let manager = try #require(world.manager)
            let operations = world.make(["a", "b"], held: true).compactMap { $0 as? AnyRequestOperation }
            try await world.add(operations[0])
            try await world.untilBegun(1)
            try await world.add(operations[1])
            try await untilKnown(2, in: world)
            try await world.until("a is executing") { manager.why(operations[0]).hasPrefix("is executing") }
            try await world.until("b waits for its host") {
                let words = manager.why(operations[1])
                return words.hasPrefix("waits for") && words.contains("stub")
            }
            for name in ["a", "b"] { world.board.open(name) }
            try await world.untilFinished(operations)
            try await untilKnown(0, in: world)
            world.expect(manager.why(operations[1]), is: "has finished", "why after the end")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func aSuspendedManagerSendsNothing(subject: QueueSubject) async throws {
        await conform(subject) { world in
            let manager = try #require(world.manager)
            manager.isSuspended = true
            let operations = world.make(Self.names)
            try await world.add(operations)
            try await untilKnown(6, in: world)
            await world.settle()
            world.mark("resumed")
            manager.isSuspended = false
            try await world.untilFinished(operations)
            world.expect(world.board.events.first == "resumed", "nothing was sent before")
            world.expect(world.board.begun.count, is: 6, "sent")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func aSuspendedManagerCanCancel(subject: QueueSubject) async throws {
        await conform(subject) { world in
            let manager = try #require(world.manager)
            manager.isSuspended = true
            let operations = world.make(Self.names)
            try await world.add(operations)
            try await untilKnown(6, in: world)
            try await world.call("cancelling") { manager.cancelAll() }
            world.expect(operations.allSatisfy { code($0) == .cancelled }, "the outcome of all is there")
            manager.isSuspended = false
            try await world.untilFinished(operations)
            world.expect(world.board.begun, is: [], "sent")
        }
    }

    @Test(arguments: QueueSubject.requests)
    func aManagerThatIsShutDownSendsNothing(subject: QueueSubject) async throws {
        await conform(subject, configure: { $0.maxConcurrentOperationCount = 2 }) { world in
            let earlier = try await world.runHeld(Self.names, begun: 2)
            try await untilKnown(6, in: world)
            try await world.call("shutting down") { [manager = world.manager] in manager?.shutDown() }
            try await world.untilFinished(earlier)
            world.expect(earlier.allSatisfy { code($0) == .cancelled }, "the earlier ones are cancelled")
            let later = try await world.run("later")
            try await world.untilFinished([later])
            world.expect(code(later), is: .managerShutDown, "error of a later one")
            world.expect(world.board.begun.count, is: 2, "sent")
        }
    }
}
