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
        /// Barriers that have not run: what comes behind one waits as in any queue.
        var barriers = 0
    }

    private let state = Locked(State())

    /// Starts an operation here and now, in the plain case; else it goes the way of any queue.
    ///
    /// This thread may be a transport's: nobody's code may run here, no disk may be waited for, and no crowd be told.
    func run(_ operation: AnyRequestOperation) {
        let isPlain =
            maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount && !isSuspended
            && operation.isReady && operation.startsInPassing
        let isIn =
            isPlain
            && state.withLock { state in
                guard state.barriers == 0 else { return false }
                state.running[ObjectIdentifier(operation)] = operation
                return true
            }
        guard isIn else { return addOperation(operation) }
        operation.start()
        // Started by hand and over before it was noted here.
        if operation.isFinished { finished(operation) }
    }

    /// An operation has finished; one that never ran here is no matter.
    func finished(_ operation: AnyRequestOperation) {
        let gone = state.withLock { $0.running.removeValue(forKey: ObjectIdentifier(operation)) }
        withExtendedLifetime(gone) {}
    }

    private var running: [AnyRequestOperation] { state.withLock { Array($0.running.values) } }

    override func cancelAllOperations() {
        for operation in running { operation.cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        for operation in running { operation.waitUntilFinished() }
        super.waitUntilAllOperationsAreFinished()
    }

    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        let earlier = state.withLock { state in
            state.barriers += 1
            return Array(state.running.values)
        }
        super.addBarrierBlock {
            for operation in earlier { operation.waitUntilFinished() }
            barrier()
            self.state.withLock { $0.barriers -= 1 }
        }
    }
}
