import Convoy
import Foundation
import Testing

@Suite(.timeLimit(.minutes(2))) struct SuspendingTests {
    @Test(arguments: [true, false])
    func aSuspendedOperationLeavesItsSlotToOthers(pausesInPlace: Bool) async throws {
        let (server, manager) = StubServer.held(pausesInPlace: pausesInPlace).withManager(1)
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        manager.enqueue(first, second)
        let exchange = await server.exchanges.wait()[0]
        first.suspend()
        let other = try #require(
            await server.exchanges.wait(count: 2, within: .seconds(30)).dropFirst().first, "its slot is kept")
        #expect(other.request.url.path == "/second")
        #expect(pausesInPlace ? exchange.isSuspended : exchange.isCancelled)
        // The operation waits for a slot now.
        first.resume()
        await manager.tasksAreAdjusted()
        #expect(server.exchanges.count == 2)
        if pausesInPlace { #expect(exchange.isSuspended) }
        #expect(manager.why(first).hasPrefix("waits for a slot"))
        other.answer(200)
        _ = try await second.response()
        if pausesInPlace {
            await look { !exchange.isSuspended }
            exchange.answer(200)
        } else {
            await server.exchanges.wait(count: 3)[2].answer(200)
        }
        _ = try await first.response()
        await manager.drain()
    }

    @Test(arguments: [true, false])
    func anOperationResumedAtOnceContinuesWithOrWithoutItsSlot(pausesInPlace: Bool) async {
        let server = StubServer(pausesInPlace: pausesInPlace) { exchange in
            DispatchQueue.global().async { exchange.answer(200) }
        }
        let manager = server.manager(2)
        let operations = (0..<200).map { manager.operation(.stub("\($0)")) }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { manager.enqueue(contentsOf: operations) }
            for thread in 0..<3 {
                group.addTask {
                    for operation in operations[(thread * 60)...] {
                        operation.suspend()
                        if thread == 0 { await Task.yield() }
                        operation.resume()
                    }
                }
            }
        }
        for operation in operations { operation.resume() }
        await manager.drain()
        #expect(operations.count { $0.error != nil } == 0)
    }

    @Test func anOperationSuspendedBetweenAttemptsHoldsNoSlot() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(1, clock: clock) { $0.retries = .standard }
        let first = manager.enqueue(.stub("first"))
        await server.exchanges.wait()[0].answer(503)
        await clock.armed.wait()
        first.suspend()
        clock.advanceToNext()
        let second = manager.enqueue(.stub("second"))
        await server.exchanges.wait(count: 2)[1].answer(200)
        _ = try await second.response()
        first.resume()
        await server.exchanges.wait(count: 3)[2].answer(200)
        _ = try await first.response()
    }

    /// A suspended operation releases its slots of the host and of the manager.
    ///
    /// It still counts in the caller's queue, because Foundation cannot take a running operation out of the count.
    @Test func aSuspendedOperationReleasesItsSlots() async throws {
        let (server, queue) = (StubServer.held(), OperationQueue())
        queue.maxConcurrentOperationCount = 2
        let manager = server.manager(3, perHost: 1, queue: queue)
        let first = manager.enqueue(.stub("first"))
        await server.exchanges.wait()
        first.suspend()
        let second = manager.enqueue(.stub("second"))
        await server.exchanges.wait(count: 2)
        let third = manager.enqueue(.stub("third", host: "other"))
        #expect(manager.why(third) == "waits for the queue to start it")
        // The operation waits for a slot of its host again.
        first.resume()
        await manager.tasksAreAdjusted()
        #expect(manager.why(first) == "waits for http://stub:80: 1 running there, its limit")
        server.exchanges.events[1].answer(200)
        _ = try await second.response()
        await look { !server.exchanges.events[0].isSuspended }
        server.exchanges.events[0].answer(200)
        await server.exchanges.wait(count: 3)[2].answer(200)
        _ = (try await first.response(), try await third.response())
        await manager.drain()
    }
}
