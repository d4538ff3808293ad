import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(3))) struct BarrierTests {
    private static func queue(_ isOwn: Bool) -> OperationQueue? { isOwn ? nil : OperationQueue() }

    /// The barrier waits for the first request, which depends on a request after the barrier.
    @Test func aDependencyOnARequestAfterTheBarrierIsACycle() async {
        let server = StubServer()
        let manager = server.manager()
        manager.queue.isSuspended = true
        let (first, behind) = (manager.operation(.stub("first")), manager.operation(.stub("behind")))
        let log = EventLog<Void>()
        manager.enqueue(first)
        manager.queue.addBarrierBlock { log.record(()) }
        manager.enqueue(behind)
        first.addDependency(behind)
        #expect(first.error?.code == .dependencyCycle)
        #expect(
            first.error?.message.contains(/first(, which)? waits for behind/) == true, "\(first.error?.message ?? "")")
        #expect(first.error?.message.contains("a barrier") == true)
        manager.queue.isSuspended = false
        await manager.drain()
        await log.wait()
        #expect(server.paths == ["/behind"])
    }

    /// The request that is enqueued after the barrier closes the cycle.
    @Test func aDependencyEnqueuedAfterTheBarrierIsACycle() async {
        let server = StubServer()
        let manager = server.manager()
        let (first, middle) = (manager.operation(.stub("first")), manager.operation(.stub("middle")))
        let last = manager.operation(.stub("last"))
        first.addDependency(middle)
        middle.addDependency(last)
        manager.enqueue(first)
        let log = EventLog<Void>()
        manager.queue.addBarrierBlock { log.record(()) }
        manager.enqueue(middle, last)
        await manager.drain()
        await log.wait()
        let codes = [first, middle, last].map { $0.error?.code }
        #expect(codes.contains(.dependencyCycle))
    }

    /// The first request has itself waited for an earlier barrier.
    @Test func aCycleBetweenTwoBarriersIsFound() async {
        let server = StubServer.held()
        let manager = server.manager()
        let log = EventLog<Int>()
        manager.enqueue(.stub("before"))
        let before = await server.exchanges.wait()[0]
        manager.queue.addBarrierBlock { log.record(1) }
        let (first, behind) = (manager.operation(.stub("first")), manager.operation(.stub("behind")))
        manager.enqueue(first)
        manager.queue.addBarrierBlock { log.record(2) }
        manager.enqueue(behind)
        first.addDependency(behind)
        before.answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        await manager.drain()
        #expect(first.error?.code == .dependencyCycle && behind.error == nil)
        #expect(log.events == [1, 2])
    }

    #if canImport(FoundationNetworking)
        @Test func anObservedRequestThatIsCancelledWhileItIsAddedFinishes() async {
            let server = StubServer()
            for _ in 0..<100 {
                let manager = server.manager(queue: OperationQueue())
                let first = manager.operation(.stub("first"))
                let others = (0..<10).map { manager.operation(.stub("\($0)")) }
                let observations = others.map { $0.observe(\.isFinished) { _, _ in } }
                for operation in others { operation.addDependency(first) }
                let cancelling = Thread { for operation in others { operation.cancel() } }
                cancelling.start()
                manager.enqueue(contentsOf: others)
                manager.enqueue(first)
                await manager.drain()
                #expect(others.allSatisfy { $0.isFinished })
                withExtendedLifetime(observations) {}
            }
        }
    #endif

    /// Both requests are after the same barrier, so there is no cycle.
    @Test(arguments: [true, false])
    func aDependencyAfterTheSameBarrierIsNotACycle(isOwn: Bool) async {
        let server = StubServer()
        let manager = server.manager(queue: Self.queue(isOwn))
        manager.queue.isSuspended = true
        manager.enqueue(.stub("before"))
        manager.queue.addBarrierBlock {}
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        manager.enqueue(first, second)
        first.addDependency(second)
        manager.queue.isSuspended = false
        await manager.drain()
        #expect(server.paths == ["/before", "/second", "/first"])
    }

    @Test(arguments: [true, false])
    func whyNamesABarrierAndItsDependencies(isOwn: Bool) async {
        let server = StubServer.held()
        let manager = server.manager(queue: Self.queue(isOwn))
        manager.enqueue(.stub("first"))
        let exchange = await server.exchanges.wait()[0]
        manager.queue.addBarrierBlock {}
        let behind = manager.enqueue(.stub("behind"))
        let why = manager.why(behind)
        #expect(why == "waits for a barrier, which waits for: first (executing)")
        #expect(!isOwn || behind.dependencies.isEmpty && manager.operations.count == 2)
        exchange.answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        await manager.drain()
        #expect(!isOwn || manager.scheduler.schedule.withLock { $0.count } == 0)
    }

    /// Corelibs frees a cancelled barrier too early: earlier requests still use a pointer to the barrier when they
    /// finish.
    @Test(arguments: [-1, 1, 2])
    func cancellingAQueueWithABarrierDoesNotCrash(limit: Int) async {
        let (server, check) = (StubServer(), LeakCheck())
        for round in 0..<60 {
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = limit
            queue.isSuspended = round % 3 == 0
            let manager = server.manager(4, queue: queue)
            let held = StubServer.held().manager(4, queue: queue)
            await offPool {
                for index in 0..<12 {
                    let source = index % 2 == 0 ? manager : held
                    source.enqueue(check.watch(source.operation(.stub("\(index)"))))
                    if index % 4 == 3 { queue.addBarrierBlock {} }
                }
                queue.cancelAllOperations()
                if round % 2 == 0 { queue.cancelAllOperations() }
                queue.isSuspended = false
            }
            await look { queue.operationCount == 0 }
        }
        await check.expectAllGone()
    }

    @Test(.timeLimit(.minutes(2)))
    func aBarrierThatRunsIsRunToItsEnd() async {
        let manager = StubServer().manager()
        let (gate, log) = (DispatchSemaphore(value: 0), EventLog<String>())
        manager.queue.addBarrierBlock {
            log.record("begins")
            _ = gate.wait(timeout: .now() + 30)
            log.record("ends")
        }
        await log.wait()
        await offPool { manager.queue.cancelAllOperations() }
        manager.enqueue(.stub("behind")) { _ in log.record("behind") }
        manager.queue.addOperation { log.record("block") }
        gate.signal()
        let events = await log.wait(count: 4)
        #expect(events.prefix(2) == ["begins", "ends"])
        await manager.drain()
    }

    /// Foundation's `addOperations(_:waitUntilFinished:)` does not call `addOperation`, so the queue overrides it.
    @Test func operationsThatAreAddedTogetherWaitForABarrierToo() async {
        let server = StubServer.held()
        let manager = server.manager()
        let log = EventLog<String>()
        manager.enqueue(.stub("first"))
        let exchange = await server.exchanges.wait()[0]
        manager.queue.addBarrierBlock { log.record("barrier") }
        await offPool {
            manager.queue.addOperations([BlockOperation { log.record("block") }], waitUntilFinished: false)
        }
        exchange.answer(200)
        #expect(await log.wait(count: 2) == ["barrier", "block"])
        await manager.drain()
    }

    #if canImport(FoundationNetworking)
        /// This test fails if the names of Foundation's fields change, because then the library reads nothing.
        @Test func barriersQueueAndDependentsAreRead() {
            let (queue, first, second) = (OperationQueue(), BlockOperation {}, BlockOperation {})
            let manager = StubServer().manager()
            let operation = manager.operation(.stub("behind"))
            queue.isSuspended = true
            second.addDependency(first)
            #expect(FoundationFields.waitingOperations(of: first).isEmpty)
            queue.addOperation(first)
            queue.addBarrierBlock {}
            #expect(FoundationFields.waitingOperations(of: first).count == 2)
            #expect(FoundationFields.queue(of: operation) == nil)
            queue.addOperation(operation)
            #expect(FoundationFields.queue(of: operation) === queue)
            #expect(operation.isBehindBarrier)
            queue.isSuspended = false
            queue.addOperation(second)
            queue.waitUntilAllOperationsAreFinished()
        }
    #endif
}
