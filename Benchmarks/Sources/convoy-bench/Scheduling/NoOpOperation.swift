// The peer of cases without a network: Foundation's queue with operations that do nothing.
import Foundation
import Synchronization

/// A minimal correct asynchronous operation, with one callback.
final class NoOpOperation: Operation, @unchecked Sendable {
    // @unchecked: the superclass `Operation` forces it. A lock guards the phase; the other properties are constant.
    private enum Phase { case pending, executing, finished }

    private let phase = Mutex(Phase.pending)
    private let callback: @Sendable () -> Void

    init(callback: @escaping @Sendable () -> Void = {}) { self.callback = callback }

    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { phase.withLock { $0 == .executing } }
    override var isFinished: Bool { phase.withLock { $0 == .finished } }

    override func start() {
        // The queue also starts cancelled operations, which finish in the same way.
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

/// The name of the peer in tables and JSON.
let operationQueueSubject = "operationqueue"
