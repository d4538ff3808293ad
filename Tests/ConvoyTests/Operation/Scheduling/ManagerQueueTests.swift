import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct ManagerQueueTests {
    private static func makeQueue(_ isOwn: Bool) -> OperationQueue? { isOwn ? nil : OperationQueue() }

    @Test(arguments: [true, false])
    func waitingForTheQueueWaitsForAllThatWaits(isOwn: Bool) async {
        let server = StubServer { exchange in DispatchQueue.global().async { exchange.answer(200) } }
        let manager = server.manager(4, queue: Self.makeQueue(isOwn))
        let operations = (0..<40).map { manager.operation(.stub("\($0)")) }
        manager.enqueue(contentsOf: operations)
        await offPool { manager.queue.waitUntilAllOperationsAreFinished() }
        #expect(operations.count { !$0.isFinished } == 0)
    }

    /// The manager's queue lists the operations that have a slot.
    ///
    /// A caller's queue lists all operations.
    @Test(arguments: [true, false])
    func theQueueListsItsOperations(isOwn: Bool) async {
        let server = StubServer.held()
        let manager = server.manager(2, queue: Self.makeQueue(isOwn))
        let operations = (0..<3).map { manager.operation(.stub("\($0)")) }
        manager.enqueue(contentsOf: operations)
        let exchanges = await server.exchanges.wait(count: 2)
        #expect(manager.queue.operations == Array(operations.prefix(isOwn ? 2 : 3)))
        #expect(manager.queue.operationCount == (isOwn ? 2 : 3))
        #expect(manager.operations == operations)
        for exchange in exchanges.prefix(2) { exchange.answer(200) }
        await server.exchanges.wait(count: 3)[2].answer(200)
        await manager.drain()
        await look { manager.queue.operationCount == 0 }
        #expect(manager.queue.operations == [])
    }

    @Test(arguments: [TransportChoice.automatic, .urlSession], [true, false])
    func theQueueCountsOperationsOverRealTransports(transport: TransportChoice, isOwn: Bool) async throws {
        let server = try TestServer(recording: .none)
        let queue = Self.makeQueue(isOwn)
        let configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: 2, maxConcurrentPerHost: 2, transport: transport)
        let manager =
            queue.map { RequestManager(queue: $0, configuration: configuration) }
            ?? RequestManager(configuration: configuration)
        let counts = EventLog<Int>()
        server.respond { [weak manager] _ in
            counts.record(manager?.queue.operationCount ?? 0)
            return .status(200)
        }
        let log = EventLog<String>()
        for index in 0..<6 { manager.enqueue(Request<Data>.get("http://127.0.0.1:\(server.port)/\(index)")) }
        manager.queue.addBarrierBlock { log.record("\(counts.count)") }
        await offPool { manager.queue.waitUntilAllOperationsAreFinished() }
        await manager.drain()
        let seen = await counts.wait(count: 6)
        #expect(seen.allSatisfy { (1...(isOwn ? 3 : 6)).contains($0) }, "\(seen)")
        #expect(await log.wait() == ["6"])
        await look { manager.queue.operationCount == 0 }
        server.shutDown()
    }

    /// Both requests are enqueued before the barrier.
    ///
    /// The dependency enters the operation queue only after the barrier was added.
    @Test(.timeLimit(.minutes(2)))
    func aDependencyOnAnOperationAfterTheBarrierEnds() async {
        let server = StubServer()
        let manager = server.manager(1)
        manager.queue.isSuspended = true
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        manager.enqueue(first, second)
        let log = EventLog<String>()
        manager.queue.addBarrierBlock { log.record("barrier") }
        let third = manager.enqueue(.stub("third"))
        first.addDependency(second)
        manager.queue.isSuspended = false
        await manager.drain()
        #expect(server.paths == ["/second", "/first", "/third"])
        #expect(await log.wait() == ["barrier"])
        #expect(third.isFinished)
    }

    @Test func requestsWithoutAReferenceWaitForABarrier() async throws {
        let server = StubServer.held()
        let manager = server.manager()
        let log = EventLog<String>()
        async let first = manager.send(.stub("a"))
        let held = await server.exchanges.wait()[0]
        manager.queue.addBarrierBlock { log.record("barrier") }
        async let second = manager.send(.stub("b"))
        await look { manager.operations.count == 2 }
        #expect(server.exchanges.count == 1)
        held.answer(200)
        await server.exchanges.wait(count: 2)[1].answer(200)
        #expect(log.count == 1)
        _ = try await (first, second)
    }

    /// Foundation traps if an operation begins while it is being added to a queue.
    @Test(.timeLimit(.minutes(5)))
    func startingAnOperationWhileItIsEnqueuedDoesNotTrap() async {
        let manager = StubServer().manager(queue: OperationQueue())
        for _ in 0..<300 {
            let operation = manager.operation(.stub("a"))
            async let enqueued: Void = offPool { manager.enqueue(operation) }
            async let started: Void = offPool { operation.start() }
            _ = await (enqueued, started)
            _ = try? await operation.response()
            #expect(operation.result?.code == nil)
        }
        await manager.drain()
    }

    /// The queue continues to serve its own manager, too.
    @Test func aManagerMayUseTheQueueOfAnother() async {
        let server = StubServer.held()
        let first = server.manager(4)
        let second = server.manager(4, queue: first.queue)
        let sent = Task { await error(of: { _ = try await first.send(Request<Data>.stub("first")) }) }
        let operation = second.operation(.stub("second"))
        second.enqueue(operation)
        await server.exchanges.wait(count: 2)
        first.queue.cancelAllOperations()
        #expect(await sent.value?.code == .cancelled)
        #expect(await error(of: { _ = try await operation.response() })?.code == .cancelled)
        first.queue.isSuspended = true
        let waiting = [first, second].map { $0.operation(.stub("waiting")) }
        first.enqueue(waiting[0])
        second.enqueue(waiting[1])
        #expect(server.exchanges.count == 2)
        first.queue.isSuspended = false
        for exchange in await server.exchanges.wait(count: 4).suffix(2) { exchange.answer(200) }
        for operation in waiting { #expect(await error(of: { _ = try await operation.response() }) == nil) }
    }

    private func error(of work: () async throws -> Void) async -> RequestError? {
        do { try await work() } catch { return error as? RequestError }
        return nil
    }
}
