import Convoy
import Foundation
import Testing

@Suite struct StateObservationTests {
    @Test func theSameCallObservesTheStateOnEveryPlatform() async throws {
        let operation = RequestOperation(.stub("a"), transport: StubServer().transport)
        let log = EventLog<String>()
        let observations = [
            operation.observeState(\.isExecuting, options: [.new, .old]) { _, change in
                let values = [change.oldValue, change.newValue].map { $0.map(String.init) ?? "none" }
                log.record("executing \(values.joined(separator: " "))")
            },
            operation.observeState(\.isFinished, options: [.initial, .new]) { observed, change in
                log.record("finished \(change.newValue.map(String.init) ?? "") \(observed === operation)")
            },
        ]
        #expect(log.events == ["finished false true"])
        let invalid = operation.observeState(\.isFinished) { _, _ in log.record("invalid") }
        invalid.invalidate()
        invalid.invalidate()
        operation.start()
        _ = try await operation.response()
        #expect(
            await log.wait(count: 4) == [
                "finished false true", "executing false true", "executing true false", "finished true true",
            ])
        for observation in observations { observation.invalidate() }
    }

    /// A cancellation ends the operation while its observers are being notified of the start.
    @Test func theStartIsNotifiedBeforeTheEnd() async {
        let operation = RequestOperation(.stub("a"), transport: StubServer.held().transport)
        let log = EventLog<String>()
        let observations = [
            operation.observeState(\.isExecuting, options: .new) { [weak operation] _, change in
                guard change.newValue == true, let operation else { return }
                let cancelled = DispatchSemaphore(value: 0)
                Thread.detachNewThread {
                    operation.cancel()
                    cancelled.signal()
                }
                cancelled.wait()
            },
            operation.observeState(\.isExecuting, options: .new) { _, change in
                log.record("executing \(change.newValue.map(String.init) ?? "")")
            },
            operation.observeState(\.isFinished, options: .new) { _, change in
                log.record("finished \(change.newValue.map(String.init) ?? "")")
            },
        ]
        await offPool { operation.start() }
        #expect(await log.wait(count: 3) == ["executing true", "executing false", "finished true"])
        #expect(operation.error?.code == .cancelled)
        for observation in observations { observation.invalidate() }
    }
}
