import Foundation
import Testing

@testable import Convoy

/// A suspended operation leaves its slot to others, and needs one to go on.
@Suite(.timeLimit(.minutes(2))) struct SuspendingTests {
    @Test(arguments: [true, false])
    func aSuspendedOperationLeavesItsSlotToOthers(pausesInPlace: Bool) async throws {
        let server = StubServer.held(pausesInPlace: pausesInPlace)
        let manager = server.manager(1)
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        manager.enqueue(first, second)
        let exchange = await server.exchanges.wait()[0]
        first.suspend()
        let other = try #require(
            await server.exchanges.wait(count: 2, within: .seconds(30)).dropFirst().first, "its slot is kept")
        #expect(other.request.url.path == "/second")
        #expect(pausesInPlace ? exchange.isSuspended : exchange.isCancelled)
        // It stands in line now.
        first.resume()
        await manager.tasksAreAdjusted()
        #expect(server.exchanges.count == 2)
        if pausesInPlace { #expect(exchange.isSuspended) }
        #expect(manager.why(first).hasPrefix("waits for a slot"))
        other.answer(200)
        _ = try await second.response()
        if pausesInPlace {
            await turns(within: .seconds(30)) { !exchange.isSuspended }
            exchange.answer(200)
        } else {
            await server.exchanges.wait(count: 3)[2].answer(200)
        }
        _ = try await first.response()
        await manager.drain()
    }

    @Test(arguments: [true, false])
    func resumedAtOnceItGoesOnWhetherItHadLeftItsSlotOrNot(pausesInPlace: Bool) async {
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

    @Test func suspendedBetweenTwoAttemptsItTakesNoSlot() async throws {
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

    @Test func cancellingASuspendedOperationEndsIt() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        let first = manager.enqueue(.stub("first"))
        await server.exchanges.wait()
        first.suspend()
        await manager.tasksAreAdjusted()
        first.cancel()
        await manager.drain()
        #expect(first.error?.code == .cancelled)
        #expect(manager.scheduler.state.withLock { $0.queues.running } == 0)
    }
}
