// A manager's own queue, where operations start on the thread that hands them over.
import Foundation

/// An operation queue that starts request operations without a change of threads.
///
/// Starting a request is brief: it hands work to its transport and returns. A queue that does this on a thread of its own
/// spends more on waking that thread than on the request. Used with transports that may be called from their own
/// callbacks (``Transport/isReentrant``); what its owner adds himself, and what is not ready, runs as in any queue.
final class InlineQueue: OperationQueue, @unchecked Sendable {
    // @unchecked: `OperationQueue` forces it. `state` is a lock of its own.
    private struct State {
        var running: [ObjectIdentifier: AnyRequestOperation] = [:]
        /// Barriers that have not run.
        var barriers = 0
        /// What came behind a barrier, in order.
        var held: [Operation] = []
    }

    private let state = Locked(State())
    private let barrierQueue = DispatchQueue(label: "convoy.manager.barriers")

    /// Starts an operation here and now, in the plain case; false when it has to go the way of any queue.
    ///
    /// This thread may be a transport's: nobody's code may run here, no disk may be waited for, and no crowd be told.
    func run(_ operation: AnyRequestOperation) -> Bool {
        guard maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount, !isSuspended,
            operation.startsInPassing, operation.isReady
        else { return false }
        let isIn = state.withLock { state in
            guard state.barriers == 0 else { return false }
            state.running[ObjectIdentifier(operation)] = operation
            return true
        }
        guard isIn else { return false }
        operation.start()
        // Started by hand and over before it was noted here.
        if operation.isFinished { finished(operation) }
        return true
    }

    /// An operation has finished; one that never ran here is no matter.
    func finished(_ operation: AnyRequestOperation) {
        let gone = state.withLock { $0.running.removeValue(forKey: ObjectIdentifier(operation)) }
        withExtendedLifetime(gone) {}
    }

    private var running: [AnyRequestOperation] { state.withLock { Array($0.running.values) } }

    override func addOperation(_ operation: Operation) {
        let isHeld = state.withLock { state in
            guard state.barriers > 0 else { return false }
            state.held.append(operation)
            return true
        }
        if !isHeld { super.addOperation(operation) }
    }

    override func cancelAllOperations() {
        for operation in running + state.withLock({ $0.held }) { operation.cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        // What ends makes room for others.
        while true {
            let (running, isHolding) = state.withLock { (Array($0.running.values), $0.barriers > 0) }
            for operation in running { operation.waitUntilFinished() }
            if isHolding { barrierQueue.sync {} }
            super.waitUntilAllOperationsAreFinished()
            if running.isEmpty, !isHolding { return }
            Thread.sleep(forTimeInterval: 0.0005)
        }
    }

    /// Runs a block when all that came before has finished; what comes later waits for it.
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        let earlier = state.withLock { state in
            state.barriers += 1
            return Array(state.running.values)
        }
        barrierQueue.async {
            for operation in earlier { operation.waitUntilFinished() }
            self.waitForOthers()
            barrier()
            let held = self.state.withLock { state -> [Operation] in
                state.barriers -= 1
                guard state.barriers == 0 else { return [] }
                defer { state.held = [] }
                return state.held
            }
            for operation in held {
                if let request = operation as? AnyRequestOperation {
                    request.handOver(to: self)
                } else {
                    self.addOperation(operation)
                }
            }
        }
    }

    /// Waits for what is in the queue as in any queue.
    private func waitForOthers() { super.waitUntilAllOperationsAreFinished() }
}
