import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct RequestOperationTests {
    @Test func endsExactlyOnceWhoeverEndsIt() async {
        for _ in 0..<200 {
            let (server, operation) = StubServer.held().withOperation()
            let outcomes = EventLog<RequestOperation<Data>.Result>()
            operation.onFinish { outcomes.record($0) }
            operation.start()
            let exchange = await server.exchanges.wait()[0]
            await withTaskGroup(of: Void.self) { group in
                group.addTask { operation.cancel() }
                group.addTask { exchange.answer(200, body: Data("x".utf8)) }
                group.addTask { exchange.finish(RequestError(.connectionLost, "lost")) }
            }
            await outcomes.wait()
            let first = outcomes.events[0].code
            #expect(operation.result?.code == first)
            operation.cancel()
            exchange.finish(RequestError(.timedOut, "late"))
            #expect(operation.result?.code == first)
            #expect(outcomes.count == 1)
        }
    }

    @Test func theResultIsSetWhenIsFinishedTurnsTrue() async {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        let seen = EventLog<Bool>()
        operation.completionBlock = { [unowned operation] in seen.record(operation.result != nil) }
        #if canImport(FoundationNetworking)
            let observation = operation.observe(\.isFinished) { observed, _ in
                seen.record((observed as? RequestOperation<Data>)?.result != nil && observed.isFinished)
            }
            defer { observation.invalidate() }
            OperationQueue().addOperation(operation)
            #expect(await seen.wait(count: 2) == [true, true])
        #else
            OperationQueue().addOperation(operation)
            #expect(await seen.wait() == [true])
        #endif
    }

    @Test func cancelBeforeStartOpensNoConnection() async {
        let server = StubServer()
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = RequestOperation(.stub("a"), transport: server.transport)
        let outcomes = EventLog<RequestError.Code?>()
        operation.onFinish { outcomes.record($0.code) }
        queue.addOperation(operation)
        operation.cancel()
        #expect(await outcomes.wait() == [.cancelled])
        #expect(operation.isCancelled && !operation.isFinished && !operation.isExecuting)
        queue.isSuspended = false
        await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
        #expect(operation.isFinished)
        #expect(server.exchanges.count == 0)
    }

    @Test func anOperationThatWasNeverEnqueuedAndIsCancelledStillDelivers() async {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        let outcomes = EventLog<RequestError.Code?>()
        operation.onFinish { outcomes.record($0.code) }
        operation.cancel()
        operation.cancel()
        #expect(await outcomes.wait() == [.cancelled])
        operation.start()
        #expect(operation.isFinished)
        #expect(outcomes.count == 1)
    }

    @Test func cancellingFromInsideACallbackIsHarmless() async {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        let outcomes = EventLog<RequestError.Code?>()
        operation.onFinish { [unowned operation] in
            operation.cancel()
            #expect(operation.result != nil)
            outcomes.record($0.code)
        }
        operation.start()
        #expect(await outcomes.wait() == [nil])
        #expect(operation.error == nil)
    }

    #if canImport(FoundationNetworking)
        @Test func notifiesCancelledThenExecutingThenFinished() async {
            let operation = RequestOperation(.stub("a"), transport: StubServer.held().transport)
            let log = EventLog<String>()
            // Each observer calls back into the operation: a lock held there would hang the test.
            let observations = [
                operation.observe(\.isCancelled, options: [.new]) {
                    log.record("cancelled \($1.newValue == $0.isCancelled)")
                },
                operation.observe(\.isExecuting, options: [.new]) { observed, change in
                    observed.cancel()
                    log.record("executing \(change.newValue ?? false)")
                },
                operation.observe(\.isFinished, options: [.new]) {
                    log.record("finished \($1.newValue == $0.isFinished)")
                },
            ]
            operation.start()
            await log.wait(count: 4)
            #expect(log.events == ["cancelled true", "executing true", "executing false", "finished true"])
            for observation in observations { observation.invalidate() }
        }
    #endif

    @Test func aFinishedOperationReleasesEverything() async {
        let check = LeakCheck()
        final class Captured: Sendable {}
        do {
            let server = StubServer()
            let dependency = check.watch(RequestOperation(.stub("a"), transport: server.transport))
            let captured = check.watch(Captured())
            let operation = check.watch(
                RequestOperation(
                    Request<Int>(url: "http://stub/b") { _, _ in
                        _ = captured
                        return 1
                    }, transport: server.transport))
            operation.addDependency(dependency)
            operation.completionBlock = { [operation] in
                _ = operation
                _ = captured
            }
            operation.onFinish { [operation] _ in
                _ = operation
                _ = captured
            }
            operation.onProgress { [operation] _ in _ = operation }
            let queue = OperationQueue()
            queue.addOperation(operation)
            queue.addOperation(dependency)
            _ = try? await operation.response()
            await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
            #expect(operation.dependencies.isEmpty)
        }
        await check.expectAllGone()
        #expect(check.watchedCount == 3)
    }

    @Test(arguments: [true, false])
    func aFinishedOperationReleasesClosuresOfTheCaller(succeeds: Bool) async {
        final class Captured: Sendable {}
        let check = LeakCheck()
        let server = StubServer { $0.answer(succeeds ? 200 : 500) }
        let operation = {
            let captured = check.watch(Captured())
            let request = Request<Int>(url: "http://stub/a") { _, _ in
                _ = captured
                return 1
            }
            let operation = RequestOperation(request, transport: server.transport)
            operation.onFinish { _ in _ = captured }
            operation.onProgress { _ in _ = captured }
            return operation
        }()
        operation.start()
        #expect(await operation.resultCode() == (succeeds ? nil : .unacceptableStatus))
        await check.expectAllGone()
        #expect(operation.isFinished)
    }

    @Test func aQueuedOperationHasNoTaskStreamOrFile() throws {
        let directory = try TemporaryDirectory()
        let (server, manager) = StubServer().withManager()
        manager.isSuspended = true
        let streams = EventLog<Void>()
        let download = manager.download(.stub("file"), to: directory.file("file"))
        let streamed = manager.enqueue(
            Request<Data>.stub("stream").written {
                streams.record(())
                return OutputStream(toMemory: ())
            })
        #expect(download.task == nil && streamed.task == nil)
        #expect(streams.count == 0)
        #expect(server.exchanges.count == 0)
        #expect(try directory.entries.isEmpty)
        manager.cancelAll()
        manager.isSuspended = false
    }

    /// The operation is cancelled on the transport's thread, while it handles the head and creates the file.
    @Test func aCancelledDownloadHasRemovedItsFileWhenItEnds() async throws {
        let directory = try TemporaryDirectory()
        let server = StubServer { exchange in
            exchange.answer(200, headerFields: ["Set-Cookie": "a=b"], body: Data("ok".utf8))
        }
        let told = EventLog<[String]>()
        let cancelled = Locked<RequestOperation<URL>?>(nil)
        // The jar calls this clock when the head has arrived.
        let jar = CookieJar(now: {
            if server.exchanges.count > 0 { cancelled.withLock { $0 }?.cancel() }
            #expect(told.count == 0)
            return Date()
        })
        var configuration = RequestManager.Configuration(transport: .custom(server.transport))
        configuration.cookies = jar
        let operation = RequestOperation<URL>(
            requestPlan: TypedRequestPlan(Request<Data>.stub("a").saved(to: directory.file("a"))),
            context: ExecutionContext(configuration))
        cancelled.withLock { $0 = operation }
        operation.onFinish { _ in told.record((try? directory.entries) ?? ["?"]) }
        operation.start()
        #expect(await told.wait() == [[]])
        #expect(operation.error?.code == .cancelled)
        cancelled.withLock { $0 = nil }
    }

    @Test func startingTwiceSendsOnce() async throws {
        let (server, operation) = StubServer().withOperation()
        operation.start()
        operation.start()
        _ = try await operation.response()
        operation.start()
        #expect(server.exchanges.count == 1)
    }

    @Test(arguments: [false, true])
    func startedBeforeItsDependenciesItFailsWithTheReason(isEnqueued: Bool) async {
        let (server, manager) = StubServer().withManager()
        let (first, second) = (manager.operation(.stub("first")), manager.operation(.stub("second")))
        second.addDependency(first)
        if isEnqueued { manager.enqueue(second) }
        second.start()
        #expect(await second.resultCode() == .invalidRequest)
        await manager.drain()
        #expect(second.isFinished && server.exchanges.count == 0)
    }

    @Test func responseIsCancelledWithItsTask() async {
        let (server, operation) = StubServer.held().withOperation()
        operation.start()
        let task = Task { try await operation.response() }
        await server.exchanges.wait()
        task.cancel()
        let result = await task.result
        #expect((result.failure as? RequestError)?.code == .cancelled)
        #expect(operation.isCancelled)
    }

    @Test func aSuspendedOperationMovesNothingUntilItIsResumed() async throws {
        let (server, operation) = StubServer.held().withOperation()
        operation.suspend()
        operation.suspend()
        operation.start()
        #expect(operation.isExecuting)
        #expect(operation.task?.state == .suspended)
        #expect(server.exchanges.count == 0)
        operation.resume()
        let exchange = await server.exchanges.wait()[0]
        exchange.answer(200)
        _ = try await operation.response()
        operation.suspend()
        #expect(!operation.isSuspended)
    }
}
