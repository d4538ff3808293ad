import Foundation
import Testing

@testable import Convoy

@Suite struct SchedulerTests {
    private final class Mark: Sendable {}

    private static let transportsThread = ThreadSlot<Mark>()
    private static var isOnTransportsThread: Bool { transportsThread.value != nil }

    /// A transport that answers inside `resume()` ends one request while it begins the next.
    @Test func requestsThatEndAtOnceDoNotNest() async {
        let manager = StubServer { $0.answer(200) }.manager(1)
        manager.isSuspended = true
        let count = 5_000
        let answered = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<count { group.addTask { (try? await manager.send(Request.stub("a"))) != nil } }
            while manager.scheduler.schedule.withLock({ $0.count }) < count { await Task.yield() }
            manager.isSuspended = false
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(answered == count)
    }

    /// Only the host's limit delays the requests; the manager has free slots.
    @Test func aQueuedOperationYieldsItsSlotToItsNewDependency() async throws {
        let server = StubServer.held()
        let manager = server.manager(8, perHost: 1)
        manager.queue.isSuspended = true
        let (first, second) = (manager.enqueue(.stub("first")), manager.enqueue(.stub("second")))
        #expect(manager.why(first) == "waits for the manager: it is suspended")
        #expect(manager.why(second) == "waits for the manager: it is suspended")
        first.addDependency(second)
        #expect(manager.why(first) == "waits for: second (queued)")
        // The scheduler handed `second` over on this thread. Otherwise the test would wait forever.
        try #require(manager.why(second) == "waits for the manager: it is suspended")
        manager.queue.isSuspended = false
        // The effects of a response are complete when the call returns, because the operation ends on this thread.
        await server.exchanges.wait()[0].answer(200)
        // The first operation has its slot again. The slot counts, although no queue gave it to the operation.
        let third = manager.enqueue(.stub("third"))
        #expect(manager.why(third) == "waits for http://stub:80: 1 running there, its limit")
        for index in 1..<3 { await server.exchanges.wait(count: index + 1)[index].answer(200) }
        await manager.drain()
        #expect(server.paths == ["/second", "/first", "/third"])
    }

    /// An operation that starts when another one ends starts on the transport's thread, unless the operation is
    /// observed.
    @Test func anObservedOperationDoesNotStartOnATransportsThread() async {
        let server = StubServer.held()
        let manager = server.manager(1)
        let observed = manager.operation(.stub("b"))
        let started = EventLog<Bool>()
        let observation = observed.observe(\.isExecuting) { operation, _ in
            if operation.isExecuting { started.record(Self.isOnTransportsThread) }
        }
        manager.enqueue(manager.operation(.stub("a")), observed)
        let exchange = await server.exchanges.wait()[0]
        await offPool { Self.transportsThread.with(Mark()) { exchange.answer(200) } }
        #expect(await started.wait() == [false])
        observed.cancel()
        withExtendedLifetime(observation) {}
    }

    /// The observed request was seen unready, and the end of another request gives it a slot or a place.
    @Test(arguments: QueueSubject.queuedRequests)
    func readinessIsNotNotifiedOnATransportsThread(subject: QueueSubject) async {
        let (server, queue) = (StubServer.held(), OperationQueue())
        let manager = server.manager(1, queue: subject == .requestsEnqueuedInAQueue ? queue : nil)
        let add = { (operation: AnyRequestOperation) in
            if subject == .requestsAddedToAQueue { queue.addOperation(operation) } else { manager.enqueue(operation) }
        }
        let (running, observed) = (manager.operation(.stub("a")), manager.operation(.stub("b")))
        add(running)
        let exchange = await server.exchanges.wait()[0]
        let dependency = BlockOperation {}
        observed.addDependency(dependency)
        let told = EventLog<Bool>()
        let observation = observed.observe(\.isReady) { _, _ in told.record(Self.isOnTransportsThread) }
        add(observed)
        OperationQueue().addOperation(dependency)
        await look { observed.isReady }
        await offPool { Self.transportsThread.with(Mark()) { exchange.answer(200) } }
        await server.exchanges.wait(count: 2)[1].answer(200)
        await manager.drain()
        await manager.tasksAreAdjusted()
        #expect(told.count > 0 && !told.events.contains(true))
        withExtendedLifetime(observation) {}
    }

    /// The transport's thread gives the slot to the second operation, and the transport refuses its request.
    @Test func aRefusedTaskNotifiesNoObserverOnATransportsThread() async {
        let server = StubServer.held()
        let transport = HookedTransport(server.transport) { request, _ throws(RequestError) in
            if request.url.path == "/refused" { throw RequestError(.invalidRequest, "the test refuses it") }
        }
        let manager = RequestManager(
            queue: OperationQueue(),
            configuration: .init(maxConcurrentOperationCount: 1, transport: .custom(transport)))
        manager.enqueue(Request.stub("a"))
        let exchange = await server.exchanges.wait()[0]
        let refused = manager.operation(.stub("refused"))
        let finished = EventLog<Bool>()
        let observation = refused.observe(\.isFinished) { _, _ in
            finished.record(Self.isOnTransportsThread)
        }
        manager.enqueue(refused)
        await look { refused.isExecuting }
        await offPool { Self.transportsThread.with(Mark()) { exchange.answer(200) } }
        #expect(await finished.wait() == [false])
        #expect(await refused.resultCode() == .invalidRequest)
        withExtendedLifetime(observation) {}
    }
}
