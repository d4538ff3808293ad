import Foundation
import Testing

@testable import Convoy

@Suite struct ExecutorPoolTests {
    /// Tests whether the transport's thread ends the operation itself or leaves that to the serial executor.
    ///
    /// During the test, a progress handler blocks the serial executor.
    @Test(arguments: [
        (dependents: 0, isOneObserved: false, endsInPlace: true), (1, false, true), (1, true, false),
        (2, false, false), (100, false, false),
    ])
    func aTransportsThreadNotifiesNoManyDependentsAndNoObserver(
        dependents count: Int, isOneObserved: Bool, endsInPlace: Bool
    ) async throws {
        let (server, manager) = StubServer.held().withManager()
        let operation = manager.operation(.stub("a"))
        let dependents = (0..<count).map { manager.operation(.stub("\($0)")) }
        for dependent in dependents { dependent.addDependency(operation) }
        let observation = isOneObserved ? dependents.first?.observe(\.isReady) { _, _ in } : nil
        let (entered, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
        operation.onProgress { _ in
            entered.record(())
            gate.wait()
        }
        manager.enqueue(operation)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data(count: 1))
        await entered.wait()
        // This thread acts as the transport's thread. The operation ends inside the call, or later on the serial
        // executor.
        exchange.finish()
        #expect(operation.isFinished == endsInPlace)
        #expect(dependents.allSatisfy { $0.isReady == endsInPlace })
        gate.signal()
        await manager.drain()
        #expect(operation.isFinished)
        withExtendedLifetime(observation) {}
    }

    /// libdispatch has 255 threads for the complete process.
    @Test func managersTogetherLeaveThreadsToOthers() async {
        await #expect(processExitsWith: .success) {
            endProcessIfStuck()
            let (entered, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
            let managers = (0..<3).map { _ in StubServer().manager() }
            for manager in managers {
                for number in 0..<200 {
                    manager.enqueue(Request.stub("\(number)")) { _ in
                        entered.record(())
                        gate.wait()
                    }
                }
            }
            // Each of the three managers has one thread, and all managers share 128 more.
            await entered.wait(count: 131)
            let other = EventLog<Void>()
            DispatchQueue(label: "somebody else's").async { other.record(()) }
            await other.wait()
            #expect(entered.count == 131)
            for _ in 0..<600 { gate.signal() }
            for manager in managers { await manager.drain() }
            #expect(entered.count == 600)
        }
    }

    /// A pool that needs no ticks ends them, and begins them again later.
    @Test func aPoolThatWasIdleFindsBlockedCodeAgain() async {
        let pool = ExecutorPool()
        for _ in 0..<10 {
            let (ran, gate) = (EventLog<Void>(), DispatchSemaphore(value: 0))
            pool.submit(Member { gate.wait() })
            pool.submit(Member { ran.record(()) })
            let hasRun = await ran.wait(within: .seconds(30)).count == 1
            gate.signal()
            guard hasRun else { return }
            while pool.tick() {}
        }
    }

    /// The pool has one worker, which is blocked while the members are queued.
    @Test(arguments: [0, 300]) func aFirstMemberRunsBeforeAllWaitingMembers(earlierCount: Int) async {
        let pool = ExecutorPool(extraWorkers: ExecutorPool.WorkerLimit(0))
        let (ran, gate) = (EventLog<Int>(), DispatchSemaphore(value: 0))
        for number in 0..<earlierCount { pool.submit(Member { ran.record(number) }) }
        await ran.wait(count: earlierCount)
        let entered = EventLog<Void>()
        pool.submit(
            Member {
                entered.record(())
                gate.wait()
            })
        await entered.wait()
        for number in 1...3 { pool.submit(Member { ran.record(1_000 + number) }) }
        pool.submit(Member { ran.record(2_001) }, isFirst: true)
        pool.submit(Member { ran.record(2_002) }, isFirst: true)
        gate.signal()
        let order = await ran.wait(count: earlierCount + 5, within: .seconds(30)).suffix(5)
        #expect(order == [2_002, 2_001, 1_001, 1_002, 1_003])
    }

    private final class Member: ExecutorMember {
        private let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        func runExecutor() { work() }
    }
}
