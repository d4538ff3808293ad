import Foundation
import Testing

@testable import Convoy

@Suite struct CoalescingTests {
    private let server = StubServer.held()
    private let manager: RequestManager

    init() { manager = server.manager() }

    private func request(_ name: String = "a") -> Request<Data> { Request.stub(name).coalesced() }

    /// A request for a page whose URL another origin has given, so the request is sent without credentials.
    private static var elsewhere: Request<Data> {
        var request = Request.stub("a").coalesced()
        request.core.policies.hasLeftOrigin = true
        return request
    }

    @Test func equalGetsShareOneTransfer() async throws {
        let manager = server.manager(2, perHost: 1)
        let operations = (0..<100).map { _ in manager.enqueue(request()) }
        await server.exchanges.wait()
        let late = manager.enqueue(request())
        // The shared transfer is not among the operations.
        #expect(manager.operations.count == 101)
        #expect(manager.why(operations[0]).hasPrefix("shares a transfer"))
        server.exchanges.events.first?.answer(200, body: Data("shared".utf8))
        for operation in operations + [late] {
            #expect(try await operation.response().value == Data("shared".utf8))
        }
        await manager.drain()
        #expect(server.exchanges.count == 1)
    }

    @Test func operationsWithoutAManagerShareNothing() async {
        let server = StubServer { $0.answer(200) }
        let request = request().mutuallyExclusive("a")
        let operations = (0..<2).map { _ in RequestOperation(request, transport: server.transport) }
        for operation in operations { operation.start() }
        for operation in operations { #expect(await operation.resultCode() == nil) }
        #expect(server.exchanges.count == 2)
    }

    @Test func aRequestAfterTheEndIsSentSeparately() async throws {
        let server = StubServer()
        let manager = server.manager()
        for _ in 0..<2 { #expect(try await manager.send(request()).attempts.map(\.statusCode) == [200]) }
        #expect(server.exchanges.count == 2)
    }

    @Test(arguments: [
        Request.stub("b").coalesced(), Request.stub("a"), Request.stub("a").header("Accept", "x").coalesced(),
        Request.stub("a").acceptableStatusCodes(.any).coalesced(),
        Request<Data>.post("http://stub/a").body(Data()).coalesced(),
        Request.stub("a").maxBodyBytes(1).coalesced(), Self.elsewhere,
        Request.stub("a").maxBytesPerSecond(9).coalesced(),
        Request.stub("a").minimumSpeed(bytesPerSecond: 9, over: .seconds(9)).coalesced(),
        Request.stub("a").cachePolicy(.reload).coalesced(), Request.stub("a").cacheKey("b").coalesced(),
    ])
    func requestsThatDifferOrAreNotCoalescedAreSentSeparately(other: Request<Data>) async {
        manager.enqueue(request())
        manager.enqueue(other)
        await server.exchanges.wait(count: 2)
        await manager.cancelAndDrain()
    }

    @Test func requestsThatDifferOnlyInASharedRateLimitAreSentSeparately() async {
        let limited = Request.stub("a").maxBytesPerSecond(9).coalesced()
        for request in [limited, limited.sharingRateLimit(on: SystemClock.shared), limited] { manager.enqueue(request) }
        await server.exchanges.wait(count: 2)
        await manager.cancelAndDrain()
        #expect(server.exchanges.count == 2)
    }

    @Test func progressAfterTheOutcomeIsIgnored() async {
        let operation = manager.enqueue(request())
        await server.exchanges.wait()
        let log = EventLog<TransferProgress>()
        operation.onProgress { log.record($0) }
        operation.cancel()
        await manager.drain()
        var progress = TransferProgress()
        progress.download.completedBytes = 60
        operation.reportShared(progress)
        #expect(operation.progress == TransferProgress())
        #expect(log.events.isEmpty)
    }

    @Test func theDeadlineOfTheManagerEndsNoSharedTransfer() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(clock: clock) { $0.deadline = .seconds(1) }
        let (limited, patient) = (manager.enqueue(request()), manager.enqueue(request().deadline(nil)))
        let exchange = await server.exchanges.wait()[0]
        clock.advance(by: .seconds(2))
        #expect(await limited.resultCode() == .deadlineExceeded)
        exchange.answer(200, body: Data("late".utf8))
        #expect(try await patient.response().value == Data("late".utf8))
        #expect(server.exchanges.count == 1)
    }

    @Test func eachDecodesForItself() async throws {
        let text = manager.enqueue(Request<String>.get("http://stub/a").coalesced())
        let number = manager.enqueue(Request<Int>.get("http://stub/a").coalesced())
        await server.exchanges.wait()[0].answer(200, body: Data("42".utf8))
        #expect(try await text.response().value == "42")
        #expect(try await number.response().value == 42)
        #expect(server.exchanges.count == 1)
    }

    @Test func eachRequestReportsTheProgress() async throws {
        let operations = (0..<5).map { _ in manager.operation(request()) }
        let logs = operations.map { operation in
            let log = EventLog<TransferProgress>()
            operation.onProgress { log.record($0) }
            return log
        }
        manager.enqueue(contentsOf: operations)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 100))
        exchange.send(Data(count: 60))
        for (operation, log) in zip(operations, logs) {
            // The head may be reported by itself before.
            await look { log.events.last?.download.fractionCompleted == 0.6 }
            #expect(operation.progress.download.completedBytes == 60)
        }
        operations[0].cancel()
        exchange.send(Data(count: 40))
        exchange.finish()
        for operation in operations.dropFirst() {
            #expect(try await operation.response().transfer.download.completedBytes == 100)
        }
        await manager.drain()
        #expect(logs[0].events.allSatisfy { $0.download.completedBytes == 60 })
        for log in logs {
            #expect(log.events.map(\.download.completedBytes) == log.events.map(\.download.completedBytes).sorted())
        }
    }

    @Test(arguments: [404, 503])
    func aFailureIsEverybodysWithItsResponseAndItsAttempts(statusCode: Int) async {
        let operations = (0..<3).map { _ in manager.enqueue(request().retries(.never)) }
        await server.exchanges.wait()[0].answer(statusCode, body: Data("none".utf8))
        for operation in operations {
            let error = await operation.failure()
            #expect(error?.code == .unacceptableStatus && error?.body == Data("none".utf8))
            #expect(operation.attempts.map(\.statusCode) == [statusCode])
        }
        await manager.drain()
        #expect(server.exchanges.count == 1)
    }

    @Test func eachCancelsAloneAndTheLastOneCancelsTheTransfer() async {
        let operations = (0..<3).map { _ in manager.enqueue(request()) }
        let exchange = await server.exchanges.wait()[0]
        operations[0].cancel()
        operations[1].cancel()
        #expect(operations[0].error?.code == .cancelled)
        #expect(!exchange.isCancelled)
        #expect(operations[2].error == nil)
        operations[2].cancel()
        await manager.drain()
        await look { exchange.isCancelled }
    }

    @Test(arguments: [false, true])
    func theHighestPriorityCountsUntilItsRequestLeaves(leaves: Bool) async {
        let manager = server.manager(1)
        manager.enqueue(Request.stub("first"))
        await server.exchanges.wait()
        manager.enqueue(request("shared").priority(.low))
        manager.enqueue(Request.stub("normal"))
        let high = manager.enqueue(request("shared"))
        high.queuePriority = .high
        if leaves { high.cancel() }
        for count in 1...3 { await server.exchanges.wait(count: count).last?.answer(200) }
        await manager.drain()
        #expect(server.paths == (leaves ? ["/first", "/normal", "/shared"] : ["/first", "/shared", "/normal"]))
    }

    /// A request's own interceptors may add other credentials, so such requests share no transfer.
    @Test func requestsWithTheirOwnInterceptorsAreNotCoalesced() async throws {
        let server = StubServer { $0.answer(200, body: Data(($0.request.headerFields["X"] ?? "none").utf8)) }
        let manager = server.manager(configure: { $0.interceptors = [Interceptor.adding("X", "m")] })
        manager.isSuspended = true
        let requests = [
            request().intercepted(by: Interceptor.adding("X", "a")),
            request().intercepted(by: Interceptor.adding("X", "b")),
            request(), request(), request().withoutInterceptors(),
        ]
        let operations = requests.map { manager.enqueue($0) }
        manager.isSuspended = false
        var values: [String] = []
        for operation in operations {
            values.append(String(decoding: try await operation.response().value, as: UTF8.self))
        }
        #expect(values == ["m, a", "m, b", "m", "m", "none"])
        #expect(server.exchanges.count == 4)
    }

    /// A request that has its response does not wait, although the host asked for a delay afterwards.
    @Test func aHostOnHoldDoesNotKeepAnAnswerBack() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(clock: clock) { $0.retries = .wholeHost }
        let rider = manager.enqueue(request())
        let shared = await server.exchanges.wait()[0]
        let other = manager.enqueue(Request.stub("other"))
        let refused = await server.exchanges.wait(count: 2)[1]
        refused.answer(503, headerFields: ["Retry-After": "120"])
        await clock.armed.wait(count: 2)
        shared.answer(200, body: Data("x".utf8))
        #expect(try await rider.response().value == Data("x".utf8))
        #expect(clock.elapsed == .zero)
        other.cancel()
        await manager.drain()
    }

    @Test func redirectsAndRetriesHappenOnceForAll() async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.path == "/a" else { return exchange.answer(200, body: Data("moved".utf8)) }
            exchange.answer(302, headerFields: ["Location": "/b"])
        }
        let manager = server.manager()
        manager.isSuspended = true
        let operations = (0..<10).map { _ in manager.enqueue(request()) }
        manager.isSuspended = false
        for operation in operations {
            let response = try await operation.response()
            #expect(response.value == Data("moved".utf8))
            #expect(response.redirects == [URL(string: "http://stub/b")])
        }
        #expect(server.paths == ["/a", "/b"])
    }

    @Test func nothingIsKeptAlive() async throws {
        let leaks = LeakCheck()
        let server = StubServer()
        let manager = server.manager()
        for _ in 0..<20 { _ = leaks.watch(manager.enqueue(request())) }
        await manager.drain()
        await leaks.expectAllGone()
    }
}
