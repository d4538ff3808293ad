import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(2))) struct ExclusionTests {
    private let server = StubServer.held()
    private let manager: RequestManager

    init() { manager = server.manager() }

    private func request(_ name: String, host: String = "stub", in group: String = "cart") -> Request<Data> {
        Request.stub(name, host: host).mutuallyExclusive(group)
    }

    @Test func onesWithTheSameNameRunOneAfterTheOtherInTheirOrder() async {
        let operations = (0..<3).map { manager.enqueue(request("\($0)", host: "\($0)")) }
        manager.enqueue(request("other", in: "other"))
        manager.enqueue(.stub("plain"))
        for count in 3...5 {
            let exchanges = await server.exchanges.wait(count: count)
            let own = count == 3 ? exchanges.first { $0.request.url.path == "/0" } : exchanges[count - 1]
            own?.answer(200)
            _ = try? await operations[count - 3].response()
        }
        // Requests that run at the same time may be sent in any order.
        #expect(server.paths.prefix(3).sorted() == ["/0", "/other", "/plain"])
        #expect(server.paths.dropFirst(3) == ["/1", "/2"])
        for exchange in server.exchanges.events { exchange.answer(200) }
        await manager.drain()
    }

    @Test func aRequestThatWaitsForANameNamesItsHolderAndUsesNoSlot() async {
        let manager = server.manager(2)
        manager.enqueue(request("first"))
        let second = manager.enqueue(request("second"))
        manager.enqueue(.stub("third"))
        #expect(await server.exchanges.wait(count: 2).map { $0.request.url.path }.sorted() == ["/first", "/third"])
        #expect(manager.why(second) == "waits for the name “cart”: first has it")
        await manager.cancelAndDrain()
    }

    @Test func cancelledAndSuspendedWaitersAreSkipped() async {
        let operations = (0..<4).map { manager.enqueue(request("\($0)")) }
        await server.exchanges.wait()
        operations[1].cancel()
        operations[2].suspend()
        server.exchanges.events[0].answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        _ = try? await operations[3].response()
        operations[2].resume()
        await server.exchanges.wait(count: 3)[2].answer(200)
        await manager.drain()
        #expect(server.paths == ["/0", "/3", "/2"])
        #expect(operations.map { $0.error?.code } == [nil, .cancelled, nil, nil])
    }

    @Test func aHigherPriorityGoesFirstAlsoWhenItIsRaisedWhileItWaits() async {
        let operations = (0..<4).map { manager.enqueue(request("\($0)")) }
        manager.enqueue(request("high").priority(.high))
        operations[3].queuePriority = .veryHigh
        for count in 1...5 { await server.exchanges.wait(count: count)[count - 1].answer(200) }
        #expect(server.paths == ["/0", "/3", "/high", "/1", "/2"])
        await manager.drain()
    }

    @Test func aRetryKeepsTheNameAndNoSlot() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(1, clock: clock) { $0.retries = .standard }
        manager.enqueue(request("first"))
        await server.exchanges.wait()[0].answer(503)
        await clock.armed.wait()
        let second = manager.enqueue(request("second"))
        manager.enqueue(.stub("plain"))
        await server.exchanges.wait(count: 2)[1].answer(200)
        #expect(manager.why(second).hasPrefix("waits for the name"))
        clock.advanceToNext()
        for count in 3...4 { await server.exchanges.wait(count: count)[count - 1].answer(200) }
        await manager.drain()
        #expect(server.paths == ["/first", "/plain", "/first", "/second"])
    }

    /// Another request with the name is between the dependent and its dependency in the queue.
    @Test func aDependencyWithTheSameNameDoesNotDeadlock() async {
        let server = StubServer()
        let manager = server.manager(1)
        let dependent = manager.operation(request("dependent"))
        let dependency = manager.operation(request("dependency"))
        dependent.addDependency(dependency)
        manager.enqueue(dependent, manager.operation(request("between")), dependency)
        await manager.drain()
        #expect(Set(server.paths) == ["/between", "/dependency", "/dependent"])
        #expect(server.paths.last == "/dependent")
    }

    /// The first request waits in the operation queue and gets a dependency.
    ///
    /// The name passes to the dependency, and then back to the first request.
    @Test func oneThatIsBlockedInItsQueueGivesTheNameBack() async {
        let (server, queue) = (StubServer(), OperationQueue())
        (queue.isSuspended, queue.maxConcurrentOperationCount) = (true, 1)
        let manager = server.manager(queue: queue)
        let first = manager.enqueue(request("first"))
        #expect(manager.why(first).contains("suspended"))
        let dependency = manager.operation(request("dependency"))
        first.addDependency(dependency)
        let third = manager.enqueue(request("third"))
        manager.enqueue(dependency)
        queue.isSuspended = false
        _ = try? await third.response()
        await manager.drain()
        #expect(server.paths.count == 3)
        #expect(server.paths.firstIndex(of: "/dependency") ?? 9 < server.paths.firstIndex(of: "/first") ?? 0)
    }

    @Test func equalRequestsWithOneNameShareTheirTransfer() async {
        let request = request("a").coalesced()
        let operations = (0..<3).map { _ in manager.enqueue(request) }
        await server.exchanges.wait()[0].answer(200, body: Data("a".utf8))
        await manager.drain()
        #expect(server.paths == ["/a"])
        #expect(operations.allSatisfy { $0.error == nil })
    }

    @Test func theLastOperationFreesTheName() async {
        let check = LeakCheck()
        do {
            let manager = StubServer().manager()
            for index in 0..<20 {
                _ = check.watch(manager.enqueue(request("\(index)", in: "\(index % 3)")))
            }
            await manager.drain()
            #expect(manager.scheduler.schedule.withLock { $0.exclusions.count } == 0)
        }
        await check.expectAllGone()
    }

    /// A request of low priority holds the name of the exclusion, but waits for a slot.
    ///
    /// A request of higher priority gets the name first.
    @Test func aHolderWithoutASlotYieldsToAHigherPriority() async {
        let manager = server.manager(2)
        manager.enqueue(request("first"))
        await server.exchanges.wait()
        manager.enqueue(request("low").priority(.low))
        manager.enqueue(.stub("plain1"))
        await server.exchanges.wait(count: 2)
        manager.enqueue(.stub("plain2"))
        server.exchanges.events[0].answer(200)
        await server.exchanges.wait(count: 3)
        manager.enqueue(request("high").priority(.high))
        for count in 4...5 {
            server.exchanges.events[count - 3].answer(200)
            await server.exchanges.wait(count: count)
            if count == 4 { server.exchanges.events[3].answer(200) }
        }
        for exchange in server.exchanges.events { exchange.answer(200) }
        await manager.drain()
        #expect(server.paths == ["/first", "/plain1", "/plain2", "/high", "/low"])
    }
}
