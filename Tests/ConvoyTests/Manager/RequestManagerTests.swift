import Convoy
import Foundation
import Testing

@Suite struct RequestManagerTests {
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

    @Test func aHostAtItsLimitHoldsNobodyElseUp() async {
        let (server, manager) = StubServer.held().withManager(4, perHost: 2)
        for index in 0..<5 { manager.enqueue(.stub("slow\(index)", host: "slow")) }
        let quick = manager.enqueue(.stub("quick", host: "quick"))
        let paths = Set(await server.exchanges.wait(count: 3).map { $0.request.url.path })
        #expect(paths == ["/slow0", "/slow1", "/quick"])
        #expect(manager.why(manager.operations[2]).contains("waits for http://slow:80: 2 running there"))
        #expect(manager.why(manager.operation(.stub("new"))) == "waits to be enqueued or started")
        server.exchanges.events.first { $0.request.url.path == "/quick" }?.answer(200)
        _ = try? await quick.response()
        #expect(server.exchanges.count == 3)
        await manager.cancelAndDrain()
    }

    @Test func cancellingByPredicateMeetsOnlyThose() async {
        let manager = StubServer().manager()
        manager.isSuspended = true
        let (meant, other) = (manager.enqueue(.stub("a")), manager.enqueue(.stub("b")))
        manager.cancelAll { operation in
            _ = manager.why(operation)
            return operation.request?.url.path == "/a"
        }
        manager.isSuspended = false
        await manager.drain()
        #expect(meant.error?.code == .cancelled && other.error == nil && other.isFinished)
    }

    @Test(arguments: [false, true])
    func cancellingAllEndsBatches(shutsDown: Bool) async {
        let (held, pulled) = (EventLog<StubExchange>(), EventLog<Int>())
        let server = StubServer { exchange in
            if held.count < 4 { held.record(exchange) } else { exchange.answer(200) }
        }
        let manager = server.manager(4)
        let told = EventLog<RequestError.Code?>()
        let batch = manager.batch(
            (0..<5_000).lazy.map { index -> Request<Data> in
                pulled.record(index)
                return .stub("\(index)")
            }
        ) { told.record($1.code) }
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

    @Test func aSuspendedOperationIsPassedOver() async throws {
        let (server, manager) = StubServer().withManager(1)
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

    /// A suspended manager cancels its work instead.
    @Test(arguments: [false, true]) func aManagerThatIsLetGoOfFinishesItsWork(isSuspended: Bool) async {
        let (server, outcomes) = (StubServer.held(), EventLog<RequestError.Code?>())
        let (managers, operations) = (LeakCheck(), LeakCheck())
        do {
            let manager = managers.watch(server.manager(1))
            manager.isSuspended = isSuspended
            for index in 0..<3 { _ = operations.watch(manager.enqueue(.stub("\(index)")) { outcomes.record($0.code) }) }
        }
        await managers.expectAllGone()
        if !isSuspended { for index in 0..<3 { await server.exchanges.wait(count: index + 1)[index].answer(200) } }
        #expect(await outcomes.wait(count: 3) == Array(repeating: isSuspended ? .cancelled : nil, count: 3))
        if isSuspended { await operations.expectAllGone() }
        #expect(server.exchanges.count == (isSuspended ? 0 : 3))
    }

    @Test func drainReturnsWhenItsTaskIsCancelled() async {
        let (server, manager) = StubServer.held().withManager()
        manager.enqueue(.stub("a"))
        let draining = Task { await manager.drain() }
        await server.exchanges.wait()
        draining.cancel()
        await draining.value
        await manager.cancelAndDrain()
    }

    /// If the cancelled task could send, a loop in the task would never end with a transport that responds at once.
    @Test func aTaskThatWasCancelledSendsNothing() async {
        let (server, manager) = StubServer().withManager()
        let code = await Task { () -> RequestError.Code? in
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(RequestError) { try await manager.send(Request<Data>.stub("a")) } catch { return error.code }
            return nil
        }.value
        #expect(code == .cancelled && server.exchanges.count == 0)
        await manager.drain()
    }
}
