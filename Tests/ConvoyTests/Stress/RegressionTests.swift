import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests defects of the past, each in its smallest form.
@Suite(.timeLimit(.minutes(5))) struct RegressionTests {
    private final class Caller: Sendable {
        let call: @Sendable () -> Void
        init(_ call: @escaping @Sendable () -> Void) { self.call = call }
        deinit { call() }
    }

    @Test func capturedObjectsMayCallTheOperationFromDeinit() async throws {
        let server = StubServer()
        let gone = EventLog<Void>()
        do {
            let operation = RequestOperation(.stub("a"), transport: server.transport)
            let caller = Caller { [weak operation] in
                operation?.cancel()
                _ = operation?.isFinished
                gone.record(())
            }
            operation.onProgress { _ in _ = caller }
            operation.onFinish { _ in _ = caller }
            operation.start()
            _ = try await operation.response()
        }
        await gone.wait()
    }

    @Test func aChainOfPlainDependentsThatCannotBeSentEndsWithoutRecursion() async {
        let manager = StubServer().manager()
        let last = await offPool {
            let first = manager.operation(.stub("first"))
            var last = first
            for index in 0..<LongRuns.count(12_000, long: 30_000) {
                let next = manager.operation(Request<Data>.get("ftp://stub/\(index)"))
                next.addDependency(last)
                manager.enqueue(next)
                last = next
            }
            manager.enqueue(first)
            return last
        }
        #expect(await last.resultCode() == .invalidRequest)
        await manager.drain()
    }

    @Test func aForeignDependencyCountsOnce() async throws {
        let (server, manager) = StubServer().withManager()
        let (done, pending) = (BlockOperation {}, manager.operation(.stub("pending")))
        let operation = manager.operation(.stub("a"))
        operation.addDependency(done)
        operation.removeDependency(done)
        operation.addDependency(done)
        operation.addDependency(pending)
        done.start()
        let bridged = EventLog<Void>()
        let after = BlockOperation { bridged.record(()) }
        after.addDependency(done)
        OperationQueue().addOperation(after)
        await bridged.wait()
        operation.removeDependency(done)
        #expect(!operation.isReady)
        manager.enqueue(operation, pending)
        _ = try await operation.response()
        #expect(server.paths == ["/pending", "/a"])
    }

    @Test func aDependencyAddedToARunningOperationHasNoEffect() async {
        let (server, manager) = StubServer.held().withManager()
        let running = manager.enqueue(.stub("running"))
        let exchange = await server.exchanges.wait()[0]
        let other = manager.operation(.stub("other"))
        running.addDependency(other, onFailure: .fail)
        running.addDependency(running)
        other.cancel()
        exchange.answer(200)
        #expect(await running.resultCode() == nil)
    }

    @Test func cancellingABatchWhoseSourceIsSilentEndsIt() async {
        let (server, (stream, input)) = (StubServer.held(), AsyncStream<Request<Data>>.makeStream())
        let batch = server.manager().batch(pulling: stream)
        input.yield(.stub("a"))
        await server.exchanges.wait()
        batch.cancel()
        #expect(await batch.results.map(\.code) == [.cancelled])
        input.finish()
    }

    @Test func theLargestLimitsAreLimitsToo() async {
        let manager = StubServer().manager(.max, perHost: .max)
        #expect(await manager.batch([Request<Data>.stub("a")]).results.count == 1)
        manager.maxConcurrentOperationCount = .max
        _ = try? await manager.send(Request<Data>.stub("b").idleTimeout(.seconds(Int64.max) * 10))
    }

    @Test func aBatchCancelledWhileItPullsEndsAfterItsCallbacks() async {
        for _ in 0..<300 {
            let told = EventLog<Int>()
            let batch = StubServer().manager().batch((0..<20).map { Request<Data>.stub("\($0)") }) { index, _ in
                told.record(index)
            }
            batch.cancel()
            let results = await batch.results
            #expect(results.count == 20)
            let count = told.count
            #expect(Set(told.events).count == count)
        }
    }

    /// A download that is reported as cancelled has not changed the target.
    ///
    /// If the file exists, the download has succeeded.
    @Test func aDownloadIsEitherThereOrCancelled() async throws {
        let directory = try TemporaryDirectory()
        for index in 0..<400 {
            let server = StubServer.held()
            let file = directory.file("\(index)")
            let operation = RequestOperation(Request<Data>.stub("a").saved(to: file), transport: server.transport)
            operation.start()
            let exchange = await server.exchanges.wait()[0]
            await withTaskGroup(of: Void.self) { group in
                group.addTask { exchange.answer(200, body: Data("whole".utf8)) }
                group.addTask { operation.cancel() }
            }
            let code = await operation.resultCode()
            #expect(FileManager.default.fileExists(atPath: file.path) == (code == nil))
        }
        #expect(try directory.entries.allSatisfy { !$0.hasPrefix(".") })
    }

    @Test func aReaderOfChunksIsNeverLeftPaused() async throws {
        let server = StubServer.held()
        for index in 0..<30 {
            let chunks = server.manager().chunks(of: .stub("a"))
            let exchange = await server.exchanges.wait(count: index + 1)[index]
            let sending = Task {
                exchange.respond(ResponseHead(statusCode: 200))
                for _ in 0..<60 {
                    while exchange.isSuspended { await Task.yield() }
                    exchange.send(Data(count: 600_000))
                }
                exchange.finish()
            }
            var count = 0
            for try await chunk in chunks { count += chunk.count }
            #expect(count == 36_000_000)
            await sending.value
        }
    }

    @Test func anEndIsReportedOnce() async {
        for _ in 0..<200 {
            let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
            let readers = (0..<3).map { _ in
                Task {
                    var ends = 0
                    for await event in operation.events where event.isFinished { ends += 1 }
                    return ends
                }
            }
            operation.start()
            for reader in readers { #expect(await reader.value == 1) }
        }
    }

    @Test func framingWithoutABodyIsRefused() {
        #expect(Request<Data>.get("http://stub/").header("Content-Length", "7").defect != nil)
        #expect(Request<Data>.get("http://stub/").header("transfer-encoding", "chunked").defect != nil)
        #expect(Request<Data>.stub("a").ignoringBody().decoding { _, _ in 1 }.defect != nil)
    }

    @Test(arguments: ["/dev/null", "/tmp"])
    func onlyARegularFileIsReplaced(path: String) async {
        let operation = RequestOperation(
            Request<Data>.stub("a").saved(to: URL(fileURLWithPath: path)), transport: StubServer().transport)
        operation.start()
        #expect(await operation.resultCode() == .destinationUnwritable)
    }
}
