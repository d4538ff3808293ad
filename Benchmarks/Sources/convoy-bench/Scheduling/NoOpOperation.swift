// The peer of cases without a network: Foundation's queue with operations that do nothing.
import Foundation
import Synchronization

/// The least an asynchronous operation has to do to be correct, and one callback.
final class NoOpOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it. A lock guards the phase; the rest is constant.
    private enum Phase { case pending, executing, finished }

    private let phase = Mutex(Phase.pending)
    private let callback: @Sendable () -> Void

    init(callback: @escaping @Sendable () -> Void = {}) { self.callback = callback }

    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { phase.withLock { $0 == .executing } }
    override var isFinished: Bool { phase.withLock { $0 == .finished } }

    override func start() {
        // A cancelled operation is started too, and has nothing to do either.
        willChangeValue(forKey: "isExecuting")
        phase.withLock { $0 = .executing }
        didChangeValue(forKey: "isExecuting")
        willChangeValue(forKey: "isExecuting")
        willChangeValue(forKey: "isFinished")
        phase.withLock { $0 = .finished }
        didChangeValue(forKey: "isExecuting")
        didChangeValue(forKey: "isFinished")
        callback()
    }
}

/// The subject's name in tables and JSON.
let operationQueueSubject = "operationqueue"
