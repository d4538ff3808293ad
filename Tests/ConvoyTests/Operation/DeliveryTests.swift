import Foundation
import Testing

@testable import Convoy

@Suite struct DeliveryTests {
    private static let key = DispatchSpecificKey<String>()

    @Test func onADispatchQueue() async {
        let queue = DispatchQueue(label: "test")
        queue.setSpecific(key: Self.key, value: "here")
        let seen = EventLog<String?>()
        StubServer().manager(callbacks: .queue(queue)).enqueue(.stub("a")) { _ in
            seen.record(DispatchQueue.getSpecific(key: Self.key))
        }
        #expect(await seen.wait() == ["here"])
    }

    @MainActor private final class Label {
        var text = ""
        nonisolated init() {}
    }

    @Test func mainActorCallbacksMayUseMainActorState() async throws {
        let (label, seen) = (Label(), EventLog<String>())
        let server = StubServer.held()
        let operation = server.manager().enqueue(.stub("a"))
        operation.onProgress(on: .main) { progress in
            label.text = "\(progress.download.completedBytes)"
            seen.record(label.text)
        }
        operation.onFinish(on: .main) { result in
            label.text = String(decoding: (try? result.get().value) ?? Data(), as: UTF8.self)
            seen.record(label.text)
        }
        operation.onFinish(on: .main) { @MainActor _ in seen.record(label.text + " again") }
        let exchange = try await server.answered()
        exchange.send(Data("ok".utf8))
        await seen.wait()
        exchange.finish()
        #expect(await seen.wait(count: 3) == ["2", "ok", "ok again"])
        // A handler that comes late is called later, too.
        await MainActor.run {
            operation.onFinish(on: .main) { _ in seen.record(label.text) }
            label.text = "after"
        }
        #expect(await seen.wait(count: 4).last == "after")
    }

    @Test func onAnOperationQueueThatCanHoldThemBack() async {
        let queue = OperationQueue()
        queue.isSuspended = true
        let seen = EventLog<Void>()
        let manager = StubServer().manager()
        let operation = manager.operation(.stub("a"))
        operation.onFinish(on: .operationQueue(queue)) { _ in seen.record(()) }
        let other = EventLog<Void>()
        operation.onFinish { _ in other.record(()) }
        manager.enqueue(operation)
        await other.wait()
        #expect(seen.count == 0)
        queue.isSuspended = false
        await seen.wait()
        await manager.drain()
    }

    /// A thread whose run loop sleeps.
    ///
    /// Its timer fires in an hour, so until then only a `RunLoopWaker` wakes it.
    private final class LoopThread: @unchecked Sendable {
        // @unchecked: `loop` is set before the semaphore is signalled, and only the loop's thread uses `anchor`.
        private(set) var loop = RunLoop.main
        private let anchor = Timer(timeInterval: 3_600, repeats: true) { _ in }
        private let mode: RunLoop.Mode
        private let ready = DispatchSemaphore(value: 0)
        private let over = EventLog<Void>()

        init(mode: RunLoop.Mode = .default) {
            self.mode = mode
            Thread { [self] in
                loop = RunLoop.current
                loop.add(anchor, forMode: mode)
                ready.signal()
                // The loop runs until it has no valid source.
                while loop.run(mode: mode, before: .distantFuture), anchor.isValid {}
                over.record(())
            }.start()
            ready.wait()
        }

        func stop() async {
            RunLoopWaker(loop, modes: [mode]).perform { [self] in anchor.invalidate() }
            await over.wait()
        }
    }

    @Test func onARunLoopThatSleeps() async {
        let thread = LoopThread()
        let seen = EventLog<Bool>()
        let loop = Locked(thread.loop)
        let manager = StubServer().manager(callbacks: .runLoop(thread.loop))
        // A sleeping loop would wake only in an hour, which exceeds the bound of the wait.
        for _ in 0..<20 {
            manager.enqueue(.stub("a")) { _ in seen.record(loop.withLock { $0 === RunLoop.current }) }
        }
        #expect(await seen.wait(count: 20).allSatisfy { $0 })
        await manager.drain()
        await thread.stop()
    }

    @Test func onlyInTheModesAskedFor() async {
        let mode = RunLoop.Mode("private")
        let thread = LoopThread(mode: mode)
        let seen = EventLog<String>()
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        operation.onFinish(on: .runLoop(thread.loop, modes: [.default])) { _ in seen.record("default") }
        operation.onFinish(on: .runLoop(thread.loop, modes: [mode])) { _ in seen.record("private") }
        operation.start()
        #expect(await seen.wait() == ["private"])
        let turn = EventLog<Void>()
        RunLoopWaker(thread.loop, modes: [mode]).perform { turn.record(()) }
        await turn.wait()
        #expect(seen.events == ["private"])
        await thread.stop()
    }

    @Test func startAndWaitEndsWithItsTimeout() async {
        let server = StubServer.held()
        let code = await offPool { () -> RequestError.Code? in
            let operation = RequestOperation(.stub("a"), transport: server.transport)
            do throws(RequestError) {
                _ = try operation.startAndWait(in: RunLoop.Mode("private"), timeout: .milliseconds(30))
                return nil
            } catch { return error.code }
        }
        #expect(code == .timedOut)
        // No request is sent if the time was over before the operation could start.
        #expect(server.exchanges.count <= 1)
    }

    @Test func startAndWaitWorksOnAQueuesThreadAndForQueuedOperations() async {
        let (server, manager) = StubServer().withManager()
        let done = EventLog<Int>()
        for index in 0..<4 {
            let operation = manager.enqueue(.stub("\(index)"))
            DispatchQueue.global().async {
                if (try? operation.startAndWait(timeout: .seconds(120))) != nil { done.record(index) }
            }
        }
        await done.wait(count: 4)
        #expect(server.exchanges.count == 4)
    }

    private func asNotifier(_ work: () -> Void) {
        let queue = DispatchQueue(label: "notifier")
        queue.setSpecific(key: Self.key, value: "notifier")
        queue.sync(execute: work)
    }

    @Test func inPlaceIsTheThreadThatEndsTheOperation() async throws {
        let (server, seen) = (StubServer.held(), EventLog<String>())
        let place = { @Sendable in DispatchQueue.getSpecific(key: Self.key) ?? "elsewhere" }
        let operation = server.manager(callbacks: .inPlace).enqueue(.stub("a")) { _ in seen.record("end: \(place())") }
        operation.onProgress { seen.record("\($0.download.completedBytes) bytes: \(place())") }
        let exchange = try await server.answered()
        asNotifier {
            exchange.send(Data("ok".utf8))
            exchange.finish()
        }
        // All callbacks ran before the exchange's calls returned.
        #expect(seen.events == ["2 bytes: notifier", "end: notifier"])
    }

    @Test func inPlaceAHandlerThatComesLateIsCalledBeforeItIsAdded() async {
        let manager = StubServer().manager()
        let operation = manager.enqueue(.stub("a"))
        await manager.drain()
        let seen = EventLog<Bool>()
        operation.onFinish(on: .inPlace) { seen.record((try? $0.get()) != nil) }
        #expect(seen.events == [true])
    }

    @Test func inPlaceHandlersFollowEarlierHandlers() async throws {
        let (server, seen, gate) = (StubServer.held(), EventLog<Int>(), DispatchSemaphore(value: 0))
        let operation = server.manager().enqueue(.stub("a")) { _ in
            gate.wait()
            seen.record(1)
        }
        operation.onFinish(on: .inPlace) { _ in seen.record(2) }
        try await server.answered().finish()
        #expect(seen.events.isEmpty)
        gate.signal()
        #expect(await seen.wait(count: 2) == [1, 2])
    }

    /// The handler on the serial executor follows the decoder that runs there.
    @Test func aCancellationDuringDecodingFinishesAtOnceAndKeepsTheOrder() async throws {
        let (server, seen, gate) = (StubServer.held(), EventLog<String>(), DispatchSemaphore(value: 0))
        let request = Request<Data>.stub("a").decoding { body, _ in
            seen.record("decoding")
            gate.wait()
            seen.record("decoded")
            return body
        }
        let operation = server.manager().enqueue(request) { seen.record("in turn: \($0.code?.rawValue ?? "")") }
        let queue = DispatchQueue(label: "elsewhere")
        operation.onFinish(on: .queue(queue)) { seen.record("elsewhere: \($0.code?.rawValue ?? "")") }
        try await server.answered().finish()
        await seen.wait()
        operation.cancel()
        #expect(operation.isFinished && operation.error?.code == .cancelled)
        #expect(await seen.wait(count: 2) == ["decoding", "elsewhere: cancelled"])
        gate.signal()
        #expect(await seen.wait(count: 4).suffix(2) == ["decoded", "in turn: cancelled"])
    }

    @Test func inPlaceACancellationIsDeliveredOnTheCancellingThread() async throws {
        let (server, seen) = (StubServer.held(), EventLog<String?>())
        let operation = server.manager(1).enqueue(.stub("a"))
        operation.onFinish(on: .inPlace) { _ in seen.record(DispatchQueue.getSpecific(key: Self.key)) }
        await server.exchanges.wait()
        asNotifier { operation.cancel() }
        #expect(seen.events == ["notifier"])
    }

    @Test func inPlaceMembersOfABatchThatFailAtOnceNeedNoStack() async {
        let manager = StubServer().manager(callbacks: .inPlace)
        let (count, failed) = (8_000, EventLog<Int>())
        let batch = manager.batch(
            (0..<count).lazy.map { _ in Request<Data>.get("nothing://") }, keepsResults: false
        ) { index, _ in failed.record(index) }
        await batch.finished()
        #expect(failed.events.count == count)
    }

    /// Each operation fails when it is enqueued, and its callback enqueues the next one.
    @Test func inPlaceCallbacksThatEnqueueInvalidRequestsNeedNoStack() async {
        let (manager, count, ended) = (StubServer().manager(callbacks: .inPlace), 8_000, EventLog<Int>())
        @Sendable func send(_ number: Int) {
            guard number < count else { return ended.record(number) }
            manager.enqueue(Request<Data>.get("nothing://\(number)")) { _ in send(number + 1) }
        }
        send(0)
        #expect(await ended.wait() == [count])
        await manager.drain()
    }

    /// Each operation gets its response when it starts, and its first progress starts the next one.
    @Test func inPlaceProgressThatStartsTheNextNeedsNoStack() async {
        let (transport, count, ended) = (StubServer().transport, 8_000, EventLog<Int>())
        @Sendable func start(_ number: Int) {
            guard number < count else { return ended.record(number) }
            let (operation, isFirst) = (RequestOperation(.stub("a"), transport: transport), Locked(true))
            operation.onProgress(on: .inPlace) { _ in
                let isFirst = isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst
                }
                if isFirst { start(number + 1) }
            }
            operation.start()
        }
        start(0)
        #expect(await ended.wait() == [count])
    }

    @Test func inPlaceCallbacksThatCancelTheNextNeedNoStack() async {
        let (manager, ended) = (StubServer().manager(callbacks: .inPlace), EventLog<RequestError.Code?>())
        manager.isSuspended = true
        let operations = (0..<8_000).map { manager.operation(Request<Data>.stub("\($0)")) }
        for (one, next) in zip(operations, operations.dropFirst()) { one.onFinish { _ in next.cancel() } }
        operations.last?.onFinish { ended.record($0.code) }
        manager.enqueue(contentsOf: operations)
        operations.first?.cancel()
        #expect(await ended.wait() == [.cancelled])
        await manager.drain()
    }
}
