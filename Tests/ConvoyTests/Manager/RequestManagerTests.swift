import Foundation
import Testing

@testable import Convoy

@Suite struct RequestManagerTests {
    // MARK: Limits and order

    /// An operation of another manager, or of none, fails; one that its manager has enqueued is not changed.
    @Test func operationsOfOthersAreRefused() async throws {
        let (server, other) = (StubServer.held(), StubServer.held())
        let (manager, others) = (server.manager(), other.manager())
        let running = others.enqueue(.stub("running"))
        let waiting = others.operation(.stub("waiting"))
        let alone = RequestOperation(.stub("alone"), transport: other.transport)
        let errors = manager.enqueue(running, waiting, alone)
        #expect(errors.map(\.code) == [.invalidRequest, .invalidRequest, .invalidRequest])
        #expect(waiting.error?.code == .invalidRequest && alone.error?.code == .invalidRequest)
        #expect(waiting.isFinished && alone.isFinished)
        #expect(errors[1].message.contains("operation(_:)"))
        await other.exchanges.wait()[0].answer(200)
        _ = try await running.response()
        #expect(server.exchanges.count == 0)
    }

    @Test func noMoreRunAtOnceThanTheLimit() async {
        let server = StubServer.held()
        let manager = server.manager(3)
        for index in 0..<10 { manager.enqueue(.stub("\(index)")) }
        await server.exchanges.wait(count: 3)
        for done in 0..<10 {
            let exchanges = await server.exchanges.wait(count: min(10, done + 3)).count
            #expect(exchanges <= done + 3)
            server.exchanges.events[done].answer(200)
        }
        await manager.drain()
        #expect(server.exchanges.count == 10)
    }

    @Test func aHostAtItsLimitHoldsNobodyElseUp() async {
        let server = StubServer.held()
        let manager = server.manager(4, perHost: 2)
        for index in 0..<5 { manager.enqueue(.stub("slow\(index)", host: "slow")) }
        let quick = manager.enqueue(.stub("quick", host: "quick"))
        let paths = Set(await server.exchanges.wait(count: 3).map { $0.request.url.path })
        #expect(paths == ["/slow0", "/slow1", "/quick"])
        #expect(manager.why(manager.operations[2]).contains("waits for http://slow:80: 2 running there"))
        server.exchanges.events.first { $0.request.url.path == "/quick" }?.answer(200)
        _ = try? await quick.response()
        #expect(server.exchanges.count == 3)
        manager.cancelAll()
        await manager.drain()
    }

    @Test func firstInFirstOutWithinAPriority() async {
        let server = StubServer()
        let manager = server.manager(1)
        manager.isSuspended = true
        let priorities: [Operation.QueuePriority] = [.veryLow, .normal, .veryHigh, .low, .high]
        for round in 0..<2 {
            for priority in priorities {
                manager.enqueue(Request<Data>.stub("\(priority.priorityIndex)-\(round)").priority(priority))
            }
        }
        manager.isSuspended = false
        await manager.drain()
        #expect(server.paths == ["/0-0", "/0-1", "/1-0", "/1-1", "/2-0", "/2-1", "/3-0", "/3-1", "/4-0", "/4-1"])
    }

    @Test func aRaisedPriorityTakesEffectWhileQueued() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        let operations = (0..<5).map { manager.enqueue(.stub("\($0)")) }
        await server.exchanges.wait()
        operations[3].queuePriority = .veryHigh
        operations[1].queuePriority = .veryLow
        for done in 0..<5 { await server.exchanges.wait(count: done + 1)[done].answer(200) }
        await manager.drain()
        #expect(server.paths == ["/0", "/3", "/2", "/4", "/1"])
    }

    @Test func aRaisedLimitTakesEffectAtOnce() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        for index in 0..<4 { manager.enqueue(.stub("\(index)")) }
        await server.exchanges.wait()
        manager.maxConcurrentOperationCount = 4
        await server.exchanges.wait(count: 4)
        manager.cancelAll()
        await manager.drain()
    }

    @Test func aQueueOfTheCallersKeepsItsOwnLimitAndOperations() async {
        let server = StubServer.held()
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 2
        let manager = server.manager(16, queue: queue)
        let others = EventLog<Void>()
        for index in 0..<4 { manager.enqueue(.stub("\(index)")) }
        await server.exchanges.wait(count: 2)
        #expect(queue.operationCount == 4)
        queue.addOperation { others.record(()) }
        for index in 0..<4 { await server.exchanges.wait(count: index + 1)[index].answer(200) }
        await others.wait()
        await manager.drain()
    }

    // MARK: Suspending and cancelling

    @Test func cancellingInASuspendedQueueIsReportedAtOnce() async {
        let server = StubServer()
        let manager = server.manager(2)
        manager.isSuspended = true
        let told = EventLog<RequestError.Code?>()
        for index in 0..<100 { manager.enqueue(.stub("\(index)")) { told.record($0.code) } }
        manager.cancelAll()
        #expect(await told.wait(count: 100).allSatisfy { $0 == .cancelled })
        manager.isSuspended = false
        await manager.drain()
        #expect(server.exchanges.count == 0)
        #expect(told.count == 100)
    }

    @Test func cancellingByTagOrPredicateMeetsOnlyThose() async {
        let server = StubServer()
        let manager = server.manager()
        manager.isSuspended = true
        let search = manager.enqueue(Request<Data>.stub("a").tagged("search", "ui"))
        let other = manager.enqueue(Request<Data>.stub("b").tagged("ui"))
        let third = manager.enqueue(.stub("c"))
        manager.cancelAll(tagged: "search")
        manager.cancelAll { operation in
            _ = manager.why(operation)
            return operation.request?.url.path == "/c"
        }
        manager.isSuspended = false
        await manager.drain()
        #expect(search.error?.code == .cancelled && third.error?.code == .cancelled)
        #expect(other.error == nil && other.isFinished)
    }

    @Test(arguments: [false, true])
    func cancellingAllEndsBatches(shutsDown: Bool) async {
        let (held, pulled) = (EventLog<StubExchange>(), EventLog<Int>())
        let server = StubServer { exchange in
            if held.count < 4 { held.record(exchange) } else { exchange.answer(200) }
        }
        let manager = server.manager(4)
        let told = EventLog<RequestError.Code?>()
        let batch = pulledBatch(manager, count: 5_000, pulled) { told.record($1.code) }
        await held.wait(count: 4)
        await pulled.wait(count: 128)
        if shutsDown { manager.shutDown() } else { manager.cancelAll() }
        let codes = await batch.results.map(\.code)
        #expect(codes == Array(repeating: .cancelled, count: 5_000))
        #expect(server.exchanges.count == 4)
        // The batch did not pull the remaining requests from its source.
        #expect(pulled.count <= 1_026)
        #expect(told.count <= 1_026)
        #expect(batch.currentProgress.finishedCount == 5_000)
        await manager.drain()
        guard !shutsDown else { return }
        // The cancellation does not affect later batches.
        #expect(await manager.batch([Request<Data>.stub("later")]).results.map(\.code) == [nil])
    }

    private nonisolated func pulledBatch(
        _ manager: RequestManager, count: Int, _ pulled: EventLog<Int>,
        onResult: @escaping @Sendable (Int, Batch<Data>.Result) -> Void
    ) -> Batch<Data> {
        let requests = (0..<count).lazy.map { index -> Request<Data> in
            pulled.record(index)
            return .stub("\(index)")
        }
        return manager.batch(requests, onResult: onResult)
    }

    @Test func aSuspendedOperationIsPassedOver() async throws {
        let server = StubServer()
        let manager = server.manager(1)
        manager.isSuspended = true
        manager.enqueue(.stub("first"))
        let held = manager.enqueue(.stub("held"))
        held.suspend()
        manager.enqueue(.stub("last"))
        #expect(manager.why(held).contains("suspended"))
        manager.isSuspended = false
        await server.exchanges.wait(count: 2)
        #expect(server.paths == ["/first", "/last"])
        held.resume()
        _ = try await held.response()
        #expect(server.paths == ["/first", "/last", "/held"])
    }

    @Test func enqueuingAgainHasNoEffect() async {
        let server = StubServer()
        let manager = server.manager()
        let operation = manager.enqueue(.stub("a"))
        manager.enqueue(operation, operation)
        server.manager().enqueue(operation)
        await manager.drain()
        manager.enqueue(operation)
        await manager.drain()
        #expect(server.exchanges.count == 1)
    }

    // MARK: Shutting down and draining

    @Test func requestsAfterShutDownFailWithAClearError() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        let running = manager.enqueue(.stub("running"))
        let waiting = manager.enqueue(.stub("waiting"))
        await server.exchanges.wait()
        manager.shutDown()
        manager.shutDown()
        let late = manager.enqueue(.stub("late"))
        let batch = manager.batch([Request<Data>.stub("batch")])
        await manager.drain()
        #expect(running.error?.code == .cancelled && waiting.error?.code == .cancelled)
        #expect(late.error?.code == .managerShutDown && late.isFinished)
        #expect(await batch.results.map(\.code) == [.managerShutDown])
        #expect(server.exchanges.count == 1)
        await #expect(throws: RequestError.self) { try await manager.send(.stub("later")) }
    }

    @Test func aManagerThatIsLetGoOfFinishesItsWork() async {
        let server = StubServer.held()
        let check = LeakCheck()
        let outcomes = EventLog<RequestError.Code?>()
        do {
            let manager = check.watch(server.manager(1))
            for index in 0..<3 { manager.enqueue(.stub("\(index)")) { outcomes.record($0.code) } }
        }
        await check.expectAllGone()
        for index in 0..<3 { await server.exchanges.wait(count: index + 1)[index].answer(200) }
        #expect(await outcomes.wait(count: 3) == [nil, nil, nil])
    }

    @Test func aSuspendedManagerThatIsLetGoOfCancelsItsWork() async {
        let server = StubServer()
        let check = LeakCheck()
        let outcomes = EventLog<RequestError.Code?>()
        do {
            let manager = server.manager(1)
            manager.isSuspended = true
            for index in 0..<3 { _ = check.watch(manager.enqueue(.stub("\(index)")) { outcomes.record($0.code) }) }
        }
        #expect(await outcomes.wait(count: 3).allSatisfy { $0 == .cancelled })
        await check.expectAllGone()
        #expect(server.exchanges.count == 0)
    }

    @Test func drainReturnsWhenItsTaskIsCancelled() async {
        let server = StubServer.held()
        let manager = server.manager()
        manager.enqueue(.stub("a"))
        let draining = Task { await manager.drain() }
        await server.exchanges.wait()
        draining.cancel()
        await draining.value
        manager.cancelAll()
        await manager.drain()
    }

    // MARK: `why(_:)`

    @Test func whyNamesTheReasonOfAWait() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        let first = manager.operation(.stub("first"))
        let second = manager.operation(after: first) { _ in Request<Data>.stub("second") }
        second.name = "second"
        let third = manager.operation(.stub("third"))
        #expect(manager.why(second) == "waits for: first (not enqueued)")
        #expect(manager.why(third) == "waits to be enqueued or started")
        manager.enqueue(first, second, third)
        await server.exchanges.wait()
        #expect(manager.why(first) == "is executing")
        #expect(manager.why(second) == "waits for: first (executing)")
        #expect(manager.why(third).hasPrefix("waits for a slot: 1 running"))
        manager.cancelAll()
        await manager.drain()
        #expect(manager.why(first) == "has finished")
    }

    // MARK: Callbacks

    @Test func oneCallbackThatBlocksDelaysNoOther() async {
        let server = StubServer()
        let manager = server.manager()
        let gate = DispatchSemaphore(value: 0)
        let (entered, left) = (EventLog<Void>(), EventLog<Void>())
        // Eight callbacks block a thread each, so a pool of at most eight threads would have no thread for the other
        // callbacks.
        for index in 0..<8 {
            manager.enqueue(.stub("blocking\(index)")) { _ in
                entered.record(())
                gate.wait()
                left.record(())
            }
        }
        await entered.wait(count: 8)
        let others = EventLog<Void>()
        for index in 0..<20 { manager.enqueue(.stub("other\(index)")) { _ in others.record(()) } }
        await others.wait(count: 20)
        #expect(left.count == 0)
        for _ in 0..<8 { gate.signal() }
        await manager.drain()
        #expect(left.count == 8)
    }

    @Test func callbacksMayCallBackIntoEverything() async {
        let server = StubServer()
        let manager = server.manager(1)
        let log = EventLog<String>()
        manager.enqueue(.stub("a")) { [unowned manager] _ in
            let operation = manager.enqueue(.stub("b")) { _ in log.record("b") }
            log.record(manager.why(operation).isEmpty ? "" : "why")
            _ = manager.operations.map(\.description)
            manager.cancelAll(tagged: "none")
        }
        await log.wait(count: 2)
        #expect(Set(log.events) == ["why", "b"])
        await manager.drain()
    }

    /// If the cancelled task could send, a loop in the task would never end with a transport that responds at once.
    @Test func aTaskThatWasCancelledSendsNothing() async {
        let server = StubServer()
        let manager = server.manager()
        let code = await Task { () -> RequestError.Code? in
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(RequestError) { try await manager.send(Request<Data>.stub("a")) } catch { return error.code }
            return nil
        }.value
        #expect(code == .cancelled && server.exchanges.count == 0)
        await manager.drain()
    }
}
