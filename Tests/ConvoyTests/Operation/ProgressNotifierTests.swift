import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct ProgressNotifierTests {
    private func post(_ byteCount: Int) -> Request<Data> {
        .post("http://stub/a").body(Data(count: byteCount), contentType: "text/plain")
    }

    @Test func eachDirectionHasItsBytesItsTotalItsFractionAndItsRate() async throws {
        let clock = VirtualClock()
        let (server, manager) = StubServer.held().withManager(clock: clock)
        let operation = manager.operation(post(1_000))
        let log = EventLog<TransferProgress>()
        operation.onProgress { log.record($0) }
        manager.enqueue(operation)
        let exchange = await server.exchanges.wait()[0]
        exchange.sent(totalBytes: 100)
        let first = await log.wait()[0]
        #expect(first.upload == ByteProgress(completedBytes: 100, totalBytes: 1_000))
        #expect(first.upload.fractionCompleted == 0.1 && first.upload.bytesPerSecond == nil)
        #expect(first.download == ByteProgress() && first.download.fractionCompleted == nil)
        clock.advance(by: .seconds(2))
        exchange.sent(totalBytes: 700)
        #expect(await log.wait(count: 2)[1].upload.bytesPerSecond == 300)
        exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 100))
        exchange.send(Data(count: 1))
        await log.wait(count: 3)
        clock.advance(by: .seconds(1))
        exchange.send(Data(count: 39))
        let last = await log.wait(count: 4)[3]
        #expect(last.upload.completedBytes == 700)
        #expect(last.download.completedBytes == 40 && last.download.totalBytes == 100)
        #expect(last.download.fractionCompleted == 0.4 && last.download.bytesPerSecond == 39)
        // The speed is measured only for progress handlers.
        #expect(operation.progress.upload.bytesPerSecond == nil)
        exchange.finish()
        try await operation.response()
    }

    /// A transport's thread has collected the handlers before a cancellation, and calls them after the outcome.
    @Test func noProgressFollowsAFailure() async throws {
        let (server, operation) = StubServer.held().withOperation()
        let (log, entered, finished) = (EventLog<String>(), EventLog<Void>(), EventLog<Void>())
        let (gate, handlers) = (DispatchSemaphore(value: 0), DispatchQueue(label: "suspended"))
        operation.onProgress(on: .inPlace) { _ in
            entered.record(())
            gate.wait()
        }
        operation.onProgress { _ in log.record("progress") }
        operation.onFinish { _ in
            log.record("outcome")
            finished.record(())
        }
        // The operation is not settled before this handler has run.
        handlers.suspend()
        operation.onFinish(on: .queue(handlers)) { _ in }
        operation.start()
        let exchange = await server.exchanges.wait()[0]
        let sent = Task {
            await offPool {
                exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 100))
                exchange.send(Data(count: 10))
            }
        }
        await entered.wait()
        operation.cancel()
        await finished.wait()
        gate.signal()
        await sent.value
        // Runs after a call of the handler on the same serial executor.
        let last = EventLog<Void>()
        operation.onExecutor { last.record(()) }
        await last.wait()
        #expect(log.events == ["outcome"])
        handlers.resume()
    }

    @Test func unchangedProgressIsReportedOnce() async throws {
        let server = StubServer.held()
        let told = EventLog<Int64>()
        let monitor = ClosureMonitor { _, event in
            if case .progress(let progress) = event { told.record(progress.upload.completedBytes) }
        }
        let manager = server.manager(monitors: [monitor])
        let operation = manager.operation(post(10))
        let (log, batched) = (EventLog<Int64>(), EventLog<Int64>())
        operation.onProgress { log.record($0.upload.completedBytes) }
        operation.notifyProgress(at: .here) { batched.record($0.upload.completedBytes) }
        manager.enqueue(operation)
        let exchange = await server.exchanges.wait()[0]
        for count: Int64 in [5, 5, 5] { exchange.sent(totalBytes: count) }
        await log.wait()
        exchange.sent(totalBytes: 5)
        exchange.sent(totalBytes: 10)
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.finish()
        try await operation.response()
        await manager.drain()
        #expect(log.events == [5, 10])
        #expect(batched.events == [5, 10])
        #expect(await told.wait(count: 2) == [5, 10])
    }

    @Test func anIntervalPassesBetweenTwoCallsAndTheLastCountsDoNotWait() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(clock: clock)
        let operation = manager.operation(.stub("a"))
        let log = EventLog<String>()
        operation.onProgress(every: .seconds(1)) { log.record("\($0.download.completedBytes)") }
        operation.onFinish { _ in log.record("finished") }
        manager.enqueue(operation)
        let exchange = try await server.answered()
        exchange.send(Data(count: 10))
        await log.wait()
        exchange.send(Data(count: 10))
        exchange.send(Data(count: 10))
        #expect(clock.armed.count == 1)
        clock.advance(by: .milliseconds(999))
        #expect(log.events == ["10"])
        clock.advance(by: .milliseconds(1))
        #expect(await log.wait(count: 2) == ["10", "30"])
        exchange.send(Data(count: 10))
        exchange.finish()
        #expect(await log.wait(count: 4) == ["10", "30", "40", "finished"])
        // The timer of the last notification was cancelled.
        clock.advance(by: .seconds(10))
        #expect(log.count == 4)
    }

    @Test func theOperationSettlesAfterTheLastCall() async throws {
        let queue = OperationQueue()
        queue.isSuspended = true
        let log = EventLog<String>()
        let manager = StubServer().manager()
        let operation = manager.operation(.stub("a"))
        operation.onProgress(on: .operationQueue(queue)) { log.record("\($0.download.completedBytes) bytes") }
        operation.whenSettled { _ in log.record("settled") }
        manager.enqueue(operation)
        try await operation.response()
        queue.isSuspended = false
        #expect(await log.wait(count: 2) == ["2 bytes", "settled"])
    }

    /// The handler is released before its timer fires.
    @Test func aFailureDoesNotWaitForAnInterval() async throws {
        final class Captured: Sendable {}
        let (check, log) = (LeakCheck(), EventLog<Int64>())
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(clock: clock)
        let operation = {
            let captured = check.watch(Captured())
            let operation = manager.operation(.stub("a"))
            operation.onProgress(every: .seconds(1)) {
                _ = captured
                log.record($0.download.completedBytes)
            }
            return operation
        }()
        manager.enqueue(operation)
        let exchange = try await server.answered()
        exchange.send(Data(count: 10))
        await log.wait()
        exchange.send(Data(count: 10))
        operation.cancel()
        await manager.drain()
        await check.expectAllGone()
        clock.advance(by: .seconds(10))
        #expect(log.events == [10])
    }
}
