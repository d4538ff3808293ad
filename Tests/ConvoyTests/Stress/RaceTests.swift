import Foundation
import Testing

@testable import Convoy

/// Repeats concurrent calls.
///
/// Each test is the smallest loop that showed a race in the past.
///
/// `CONVOY_RACES=20` in the environment makes each loop twenty times as long.
@Suite(.serialized, .timeLimit(.minutes(10))) struct RaceTests {
    private static let factor =
        ProcessInfo.processInfo.environment["CONVOY_RACES"].flatMap { Int($0) }.map { max(1, $0) } ?? 1

    @Test func theOperationsOfAManagerMayBeReadWhileTheyFinish() async {
        let server = StubServer { exchange in DispatchQueue.global().async { exchange.answer(200) } }
        let manager = server.manager(4)
        let finished = EventLog<Void>()
        let isOver = Locked(false)
        let count = 600 * Self.factor
        async let readers: Void = offPool {
            DispatchQueue.concurrentPerform(iterations: 2) { _ in
                while !isOver.withLock({ $0 }) {
                    for operation in manager.operations { _ = operation.attempt }
                    manager.cancelAll { _ in false }
                }
            }
        }
        await offPool {
            DispatchQueue.concurrentPerform(iterations: 2) { thread in
                for index in 0..<count { manager.enqueue(.stub("\(thread)-\(index)")) { _ in finished.record(()) } }
            }
        }
        await finished.wait(count: 2 * count)
        isOver.withLock { $0 = true }
        await readers
        await manager.drain()
    }

    /// The observation of an operation is released with its last event.
    ///
    /// Before that, the operation must notify its observer of the end.
    @Test func anObserverIsNotifiedOfTheEndOfACancelledOperation() async {
        let server = StubServer { exchange in DispatchQueue.global().async { exchange.answer(200) } }
        let manager = server.manager(4)
        let told = EventLog<Int>()
        let observations = Locked<[StateObservation]>([])
        let count = 1_500 * Self.factor
        await offPool {
            for index in 0..<count {
                let operation = manager.operation(.stub("\(index)"))
                let observation = operation.observe(\.isFinished) { operation, _ in
                    if operation.isFinished { told.record(index) }
                }
                _ = operation.events
                DispatchQueue.concurrentPerform(iterations: 2) { thread in
                    if thread == 0 { manager.enqueue(operation) } else { operation.cancel() }
                }
                observations.withLock { $0.append(observation) }
            }
        }
        await manager.drain()
        let counts = Dictionary(grouping: told.events) { $0 }.mapValues(\.count)
        #expect((0..<count).filter { counts[$0] == nil } == [])
        #expect(counts.filter { $0.value > 1 }.isEmpty)
    }

    @Test func aCancellationIsNotifiedOnce() async {
        let server = StubServer.held()
        let told = EventLog<Int>()
        let count = 1_000 * Self.factor
        await offPool {
            for index in 0..<count {
                let operation = RequestOperation(.stub("\(index)"), transport: server.transport)
                let observation = operation.observe(\.isCancelled) { _, _ in told.record(index) }
                DispatchQueue.concurrentPerform(iterations: 2) { _ in operation.cancel() }
                withExtendedLifetime(observation) {}
            }
        }
        #expect(told.events == Array(0..<count))
    }

    @Test func aMonitorHearsNothingAfterTheEnd() async {
        let server = StubServer { exchange in
            DispatchQueue.global().async { exchange.answer(200, body: Data(count: 9)) }
        }
        let monitor = TortureMonitor()
        let manager = server.manager(4, monitors: [monitor])
        let count = 1_500 * Self.factor
        await offPool {
            for index in 0..<count {
                let operation = manager.operation(.stub("\(index)"))
                DispatchQueue.concurrentPerform(iterations: 2) { thread in
                    if thread == 0 { manager.enqueue(operation) } else { operation.cancel() }
                }
            }
        }
        await manager.drain()
        await withCheckedContinuation { continuation in
            manager.scheduler.monitorQueue.async { continuation.resume() }
        }
        #expect(monitor.faults == [])
    }

    /// Handlers run in the order in which they were added.
    ///
    /// The waiting `response()` is one of the handlers.
    @Test func theResponseFollowsEarlierHandlers() async throws {
        let server = StubServer { exchange in DispatchQueue.global().async { exchange.answer(200) } }
        let manager = server.manager(4)
        var early = 0
        for index in 0..<300 * Self.factor {
            let operation = manager.operation(.stub("\(index)"))
            let returned = Locked(0)
            for _ in 0..<3 {
                operation.onFinish { _ in
                    _ = manager.operations
                    returned.withLock { $0 += 1 }
                }
            }
            manager.enqueue(operation)
            // The response is awaited before the end of the operation, or after it.
            if index % 3 == 0 { await server.exchanges.wait(count: index + 1) }
            _ = try await operation.response()
            if returned.withLock({ $0 }) != 3 { early += 1 }
        }
        #expect(early == 0)
    }
}
