import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(2))) struct QueuePlaceTests {
    private static func queue(_ limit: Int?) -> OperationQueue? {
        guard let limit else { return nil }
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = limit
        return queue
    }

    /// Starts an operation before `addOperation` returns, as another thread of a queue may.
    private final class EagerQueue: OperationQueue, @unchecked Sendable {
        override func addOperation(_ operation: Operation) { operation.start() }
    }

    /// The request is sent before the manager's task queue runs, where a later request might overtake it.
    @Test func aRequestThatItsQueueStartsDuringTheAdditionIsSentInOrder() async throws {
        let server = StubServer()
        let manager = server.manager(queue: EagerQueue())
        let gate = DispatchSemaphore(value: 0)
        manager.scheduler.taskControl.async { _ = gate.wait(timeout: .now() + 60) }
        let operation = manager.enqueue(.stub("a"))
        #expect(server.paths == ["/a"])
        gate.signal()
        _ = try await operation.response()
    }

    /// A server that responds with 503 to the first request of each flaky path, and otherwise with 200.
    private static func flaky() -> StubServer {
        let seen = Locked(Set<String>())
        return StubServer { exchange in
            let isFirst = seen.withLock { $0.insert(exchange.request.url.absoluteString).inserted }
            exchange.answer(isFirst && exchange.request.url.path.contains("flaky") ? 503 : 200)
        }
    }

    private func retrying(
        _ server: StubServer, _ clock: VirtualClock, limit: Int = 16, perHost: Int = 16, queue: OperationQueue?,
        interceptors: [any RequestInterceptor] = []
    ) -> RequestManager {
        server.manager(limit, perHost: perHost, queue: queue, clock: clock) { configuration in
            configuration.interceptors = interceptors
            configuration.retries = .standard
            configuration.retryBudget = .unlimited
            configuration.jitter = { 0.5 }
        }
    }

    /// Advances the clock whenever a timer is set, until all operations have ended.
    private func drain(_ manager: RequestManager, _ clock: VirtualClock) async {
        let isOver = Locked(false)
        async let drained: Void = {
            await manager.drain()
            isOver.withLock { $0 = true }
        }()
        await look {
            clock.advanceToNext()
            return isOver.withLock { $0 }
        }
        let isDrained = isOver.withLock { $0 }
        #expect(isDrained, "stuck: \(manager.operations.map { manager.why($0) })")
        // Stuck operations must not delay the other tests.
        if !isDrained { manager.cancelAll() }
        await drained
    }

    @Test(arguments: [(1, 1), (2, 2), (2, 5), (3, 1)], [true, false])
    func aRetryContinuesInAQueueWithALimit(counts: (limit: Int, flaky: Int), intercepts: Bool) async {
        let (server, clock) = (Self.flaky(), VirtualClock())
        let pausing = Interceptor(adapting: { request, _ in
            await Task.yield()
            return request
        })
        let manager = retrying(
            server, clock, queue: Self.queue(counts.limit), interceptors: intercepts ? [pausing] : [])
        for index in 0..<counts.flaky { manager.enqueue(.stub("flaky-\(index)")) }
        for index in 0..<4 { manager.enqueue(.stub("plain-\(index)")) }
        await drain(manager, clock)
        #expect(server.exchanges.count == 2 * counts.flaky + 4)
    }

    @Test func aRetryKeepsItsPlaceInAQueueOfTheCallers() async {
        let (server, clock) = (Self.flaky(), VirtualClock())
        let manager = retrying(server, clock, queue: Self.queue(1))
        manager.enqueue(.stub("flaky"))
        await clock.armed.wait()
        let low = manager.enqueue(.stub("low"))
        #expect(manager.why(low) == "waits for the queue to start it")
        // A higher priority still applies.
        manager.enqueue(Request.stub("high").priority(.high))
        await drain(manager, clock)
        #expect(server.paths == ["/flaky", "/flaky", "/high", "/low"])
    }

    @Test func aRedirectContinuesBeforeAWaitingHigherPriority() async {
        let server = StubServer.held()
        let manager = server.manager(queue: Self.queue(1))
        manager.enqueue(Request.stub("from"))
        let from = await server.exchanges.wait()[0]
        manager.enqueue(Request.stub("high").priority(.veryHigh))
        from.answer(302, headerFields: ["Location": "http://stub/to"])
        let next = await server.exchanges.wait(count: 2, within: .seconds(30))
        guard next.count == 2 else { return manager.cancelAll() }
        #expect(next[1].request.url.path == "/to")
        next[1].answer(200)
        await server.exchanges.wait(count: 3)[2].answer(200)
        await manager.drain()
    }

    /// Requests after the barrier have slots and wait for the retry before it, which needs a slot.
    @Test(arguments: [nil, -1], [(1, 1), (16, 1), (8, 6)])
    func aRetryContinuesDespiteABarrier(queueLimit: Int?, limits: (manager: Int, host: Int)) async {
        let (server, clock) = (Self.flaky(), VirtualClock())
        let log = EventLog<String>()
        let manager = retrying(
            server, clock, limit: limits.manager, perHost: limits.host, queue: Self.queue(queueLimit))
        manager.enqueue(.stub("flaky")) { _ in log.record("flaky") }
        await clock.armed.wait()
        manager.queue.addBarrierBlock { log.record("barrier") }
        for index in 0..<8 { manager.enqueue(.stub("\(index)")) }
        await drain(manager, clock)
        #expect(server.exchanges.count == 10)
        let paths = server.paths
        #expect(paths.prefix(2) == ["/flaky", "/flaky"])
        #expect(log.events.contains("barrier"))
    }

    /// When the barrier ends, corelibs uses a pointer to each request after the barrier.
    @Test func requestsCancelledAfterABarrierFinishAfterIt() async throws {
        let server = StubServer.held()
        let check = LeakCheck()
        let manager = server.manager(queue: OperationQueue())
        let first = manager.enqueue(.stub("first"))
        let exchange = await server.exchanges.wait()[0]
        let log = EventLog<Void>()
        manager.queue.addBarrierBlock { log.record(()) }
        await offPool {
            for index in 0..<8 {
                let operation = check.watch(manager.operation(.stub("\(index)")))
                manager.enqueue(operation)
                operation.cancel()
                #expect(operation.error?.code == .cancelled && operation.isCancelled && !operation.isFinished)
            }
        }
        #expect(check.aliveCount == 8)
        exchange.answer(200)
        _ = try await first.response()
        await log.wait()
        await manager.drain()
        await check.expectAllGone()
    }
}
