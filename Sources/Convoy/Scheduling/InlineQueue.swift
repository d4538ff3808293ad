// A manager's own queue, where operations start on the thread that hands them over.
import Foundation
import Synchronization

/// An operation queue that starts request operations without a change of threads.
///
/// Starting a request is brief: it hands work to its transport and returns. A queue that does this on a thread of its own
/// spends more on waking that thread than on the request. Used with transports that may be called from their own
/// callbacks (``Transport/isReentrant``); what its owner adds himself, and what is not ready, runs as in any queue.
final class InlineQueue: OperationQueue, @unchecked Sendable {
    // @unchecked: `OperationQueue` forces it. `state` is a lock of its own.
    private struct State {
        var running: [ObjectIdentifier: AnyRequestOperation] = [:]
        /// A barrier has not run, or what came behind it is still on its way in.
        var isHolding = false
        /// What came behind that barrier, in order.
        var held: [Held] = []
        /// How many of those have gone in already.
        var releasedCount = 0

        /// Takes the next that was held back; nil, and nothing is held back any more, when there is none.
        mutating func takeHeld() -> Held? {
            guard releasedCount < held.count else {
                (held, releasedCount, isHolding) = ([], 0, false)
                return nil
            }
            defer { releasedCount += 1 }
            return held[releasedCount]
        }
    }

    private enum Held {
        case operation(Operation)
        case barrier(@Sendable () -> Void)
    }

    private let state = Locked(State())
    // The same as Foundation's, which takes a lock to tell.
    private let limit = Atomic(OperationQueue.defaultMaxConcurrentOperationCount)
    private let holdsBack = Atomic(false)
    private let barrierQueue = DispatchQueue(label: "convoy.manager.barriers")

    /// Starts an operation here and now, in the plain case; false when it has to go the way of any queue.
    ///
    /// This thread may be a transport's: nobody's code may run here, no disk may be waited for, and no crowd be told.
    func run(_ operation: AnyRequestOperation, _ readiness: OperationState.Readiness) -> Bool {
        guard maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount, !isSuspended,
            readiness.startsInPassing, !readiness.hasEdges || operation.isReady
        else { return false }
        #if !canImport(FoundationNetworking)
            if operation.isObservedSynchronously { return false }
        #endif
        let isIn = state.withLock { state in
            guard !state.isHolding else { return false }
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

    override var maxConcurrentOperationCount: Int {
        get { limit.load(ordering: .acquiring) }
        set {
            super.maxConcurrentOperationCount = newValue
            limit.store(super.maxConcurrentOperationCount, ordering: .releasing)
        }
    }

    override var isSuspended: Bool {
        get { holdsBack.load(ordering: .acquiring) }
        set {
            holdsBack.store(newValue, ordering: .releasing)
            super.isSuspended = newValue
        }
    }

    private var running: [AnyRequestOperation] { state.withLock { Array($0.running.values) } }

    override func addOperation(_ operation: Operation) {
        let isHeld = state.withLock { state in
            if state.isHolding { state.held.append(.operation(operation)) }
            return state.isHolding
        }
        if !isHeld { super.addOperation(operation) }
    }

    override func cancelAllOperations() {
        let held = state.withLock { Array($0.held[$0.releasedCount...]) }
        for operation in running { operation.cancel() }
        for case .operation(let operation) in held { operation.cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        // What ends makes room for others.
        while true {
            let (running, isHolding) = state.withLock { (Array($0.running.values), $0.isHolding) }
            for operation in running { operation.waitUntilFinished() }
            if isHolding { barrierQueue.sync {} }
            super.waitUntilAllOperationsAreFinished()
            if running.isEmpty, !isHolding { return }
            Thread.sleep(forTimeInterval: 0.0005)
        }
    }

    /// Runs a block when all that came before has finished; what comes later waits for it.
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        let earlier = state.withLock { state -> [AnyRequestOperation]? in
            if state.isHolding {
                state.held.append(.barrier(barrier))
                return nil
            }
            state.isHolding = true
            return Array(state.running.values)
        }
        if let earlier { barrierQueue.async { self.run(barrier, after: earlier) } }
    }

    /// Waits for what came before a barrier, runs it, and lets in what came behind it, up to the next barrier.
    private func run(_ barrier: @Sendable () -> Void, after earlier: [AnyRequestOperation]) {
        for operation in earlier { operation.waitUntilFinished() }
        waitForOthers()
        barrier()
        while let next = state.withLock({ $0.takeHeld() }) {
            switch next {
            case .barrier(let barrier):
                // What was let in meanwhile is in the queue as in any queue.
                barrierQueue.async { self.run(barrier, after: []) }
                return
            case .operation(let operation as AnyRequestOperation): operation.handOver { addAtOnce($0) }
            case .operation(let operation): addAtOnce(operation)
            }
        }
    }

    private func addAtOnce(_ operation: Operation) { super.addOperation(operation) }

    /// Waits for what is in the queue as in any queue.
    private func waitForOthers() { super.waitUntilAllOperationsAreFinished() }
}
