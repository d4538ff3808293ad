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
            operation.onFinish { [unowned operation] in
                operation.cancel()
                outcomes.record($0)
            }
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

    /// The closures of the caller are released at the end, although the test still has the operation.
    @Test(arguments: [true, false]) func aFinishedOperationReleasesEverything(succeeds: Bool) async {
        final class Captured: Sendable {}
        let (operations, closures) = (LeakCheck(), LeakCheck())
        do {
            let server = StubServer { $0.answer(succeeds ? 200 : 500) }
            let dependency = operations.watch(RequestOperation(.stub("a"), transport: server.transport))
            let operation = {
                let captured = closures.watch(Captured())
                let request = Request<Int>(url: "http://stub/b") { _, _ in
                    _ = captured
                    return 1
                }
                let operation = operations.watch(RequestOperation(request, transport: server.transport))
                operation.completionBlock = { [operation] in
                    _ = operation
                    _ = captured
                }
                operation.onFinish { [operation] _ in
                    _ = operation
                    _ = captured
                }
                operation.onProgress { [operation] _ in
                    _ = operation
                    _ = captured
                }
                return operation
            }()
            operation.addDependency(dependency)
            let queue = OperationQueue()
            queue.addOperation(operation)
            queue.addOperation(dependency)
            #expect(await operation.resultCode() == (succeeds ? nil : .unacceptableStatus))
            await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
            #expect(operation.dependencies.isEmpty)
            await closures.expectAllGone()
            #expect(operation.isFinished)
        }
        await operations.expectAllGone()
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

    #if canImport(Glibc)
        /// Many operations may be queued.
        ///
        /// The numbers are those of 64-bit Linux, with the allocator's rounding. The allocator may return a larger block
        /// that it reuses, so the smallest of several blocks counts.
        @Test func aQueuedOperationIsSmall() throws {
            let symbol = try #require(dlsym(nil, "malloc_usable_size"))
            let usableSize = unsafeBitCast(symbol, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
            func byteCount(_ make: () -> AnyObject) -> Int {
                let objects = (0..<50).map { _ in make() }
                return objects.map { usableSize(Unmanaged.passUnretained($0).toOpaque()) }.min() ?? 0
            }
            #expect(byteCount { RequestOperation(Request<Data>.get("http://stub/")) } <= 456)
            #expect(byteCount { TypedRequestPlan(Request<Data>.get("http://stub/")) } <= 56)
            #expect(MemoryLayout<RequestCore>.size <= 64)
        }
    #endif

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
            scheduler: Scheduler(configuration))
        cancelled.withLock { $0 = operation }
        operation.onFinish { _ in told.record((try? directory.entries) ?? ["?"]) }
        operation.start()
        #expect(await told.wait() == [[]])
        #expect(operation.error?.code == .cancelled)
        cancelled.withLock { $0 = nil }
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

    @Test func aSuspendedOperationSendsOnceWhenItIsResumed() async throws {
        let (server, operation) = StubServer.held().withOperation()
        operation.suspend()
        operation.suspend()
        operation.start()
        operation.start()
        #expect(operation.isExecuting)
        #expect(operation.task?.state == .suspended)
        #expect(server.exchanges.count == 0)
        operation.resume()
        let exchange = await server.exchanges.wait()[0]
        exchange.answer(200)
        _ = try await operation.response()
        operation.suspend()
        operation.start()
        #expect(!operation.isSuspended && server.exchanges.count == 1)
    }

    @Test func aGroupIsLeftWhenEachOperationAndItsHandlersHaveReturned() async {
        let manager = StubServer { $0.answer($0.request.url.path == "/b" ? 500 : 200) }.manager()
        let operations = ["a", "b", "c"].map { manager.operation(.stub($0)) }
        let (group, log) = (DispatchGroup(), EventLog<String>())
        for operation in operations {
            operation.onFinish { _ in log.record("handled") }
            operation.enter(group)
        }
        operations[2].cancel()
        group.notify(queue: .global()) { log.record("all") }
        manager.enqueue(contentsOf: operations.dropLast())
        #expect(await log.wait(count: 4) == ["handled", "handled", "handled", "all"])
        // An operation that has finished leaves at once.
        operations[0].enter(group)
        group.notify(queue: .global()) { log.record("again") }
        #expect(await log.wait(count: 5).last == "again")
    }

    @Test func userInfoOfTheRequestIsThereBeforeAndAfterTheEndAndReplaceable() async throws {
        let manager = StubServer().manager()
        let request = Request.stub("a").userInfo("row", 7).userInfo("gone", 1).userInfo("gone", nil)
        let (operation, other) = (manager.operation(request), manager.operation(request))
        #expect(operation.userInfo["row"] as? Int == 7 && operation.userInfo.count == 1)
        other.userInfo["row"] = 8
        let link = manager.operation(after: operation) { _ in Request.stub("b").userInfo("row", 9) }
        #expect(link.userInfo.isEmpty)
        manager.enqueue(operation, other, link)
        await manager.drain()
        #expect(link.userInfo["row"] as? Int == 9)
        #expect(operation.userInfo["row"] as? Int == 7 && other.userInfo["row"] as? Int == 8)
        other.userInfo = [:]
        #expect(other.userInfo.isEmpty && manager.operation(Request.stub("a")).userInfo.isEmpty)
    }
}

@Suite struct RequestOperationCopyingTests {
    private struct Problem: Error, Decodable { let title: String }

    @Test func aCopyIsAnUnsentOperationOfTheSameRequest() async throws {
        let isDown = Locked(true)
        let server = StubServer { $0.answer(isDown.withLock { $0 } ? 503 : 200, body: Data("\"ok\"".utf8)) }
        let manager = server.manager()
        let request = Request<String>.put("http://stub/a").json(["a": 1]).failing(with: Problem.self)
        let operation = manager.operation(request.tagged("t").named("n").priority(.high))
        let told = EventLog<Void>()
        operation.onFinish { _ in told.record(()) }
        manager.enqueue(operation)
        #expect(await operation.resultCode() == .unacceptableStatus)
        isDown.withLock { $0 = false }
        // The copy keeps its type when only the base class is known.
        let copy = try #require((operation as AnyRequestOperation).copy() as? RequestOperation<String>)
        #expect(copy !== operation && copy.tags == ["t"] && copy.name == "n" && copy.queuePriority == .high)
        #expect(copy.dependencies.isEmpty && copy.copy() !== copy)
        manager.enqueue(copy)
        #expect(try await copy.response().value == "\"ok\"")
        let bodies = server.exchanges.events.map(\.request.body)
        #expect(bodies.count == 2 && bodies[0] == bodies[1])
        await manager.drain()
        #expect(told.count == 1)
    }

    @Test(arguments: ["closure", "failure", "stream", "interceptor", "map"])
    func aCopyOfAFinishedOperationWithReleasedCodeFails(code: String) async throws {
        let request: Request<Data> =
            switch code {
            case "closure": Request(url: "http://stub/a") { body, _ in body }
            case "failure": Request<Data>.stub("a").failing { _, _ in Problem(title: "x") }
            case "stream": Request<Data>.stub("a").body { InputStream(data: Data()) }
            case "interceptor": Request<Data>.stub("a").intercepted(by: Interceptor())
            default: Request<Data>.stub("a").map { $0 }
            }
        let (server, manager) = StubServer().withManager()
        let operation = manager.operation(request)
        let early = operation.copy()
        manager.enqueue(operation)
        _ = await operation.resultCode()
        await manager.drain()
        let count = server.exchanges.count
        let late = operation.copy()
        manager.enqueue(late)
        let error = await late.failure()
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("copy of a finished operation") == true)
        #expect(server.exchanges.count == count)
        manager.enqueue(early)
        _ = await early.resultCode()
        #expect(server.exchanges.count == count + 1)
    }

    private final class RefusalMonitor: EventMonitor {
        let refusals = EventLog<RequestError>()

        func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {}
        func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) { refusals.record(error) }
    }

    @Test func enqueueingAFinishedOperationIsReported() async throws {
        let server = StubServer.held()
        let monitor = RefusalMonitor()
        let lines = EventLog<String>()
        let manager = server.manager(monitors: [monitor, LogMonitor { _, line in lines.record(line) }])
        let (operation, other) = (manager.operation(.stub("a")), manager.operation(.stub("b")))
        #expect(manager.enqueue(operation).isEmpty)
        // Enqueuing a running operation a second time is harmless.
        #expect(manager.enqueue(other, other).isEmpty)
        for exchange in await server.exchanges.wait(count: 2) { exchange.answer(200) }
        await manager.drain()
        let errors = manager.enqueue(operation, manager.operation(.stub("c")))
        #expect(errors.map(\.code) == [.invalidRequest])
        #expect(errors.first?.message.contains("has finished") == true)
        #expect(await monitor.refusals.wait().map(\.message) == errors.map(\.message))
        await server.exchanges.wait(count: 3)[2].answer(200)
        await manager.drain()
        #expect(server.paths == ["/a", "/b", "/c"])
        await look { lines.events.contains { $0.contains("cannot run twice") } }
    }
}
