// A manager's own queue: Foundation's, which knows all requests of its manager.
import Foundation
import Synchronization

/// The operation queue of a manager that was not given one.
///
/// Requests that a caller may hold are operations in it as in any queue, from the moment they have a slot; where the queue has
/// a limit of its own, from the moment they are ready. Requests that only the library holds (of `send` and of batches) start
/// on the thread that hands them over, where the transport may be called from its own callbacks: waking a thread for each
/// costs more than the request. Waiting for all, cancelling all, suspension and barriers mean both, and those too that wait
/// in the manager. The list and the count cannot be overridden on Linux: they are Foundation's.
final class ManagerQueue: OperationQueue, @unchecked Sendable {
    // @unchecked: `OperationQueue` forces it. `state` is a lock of its own.

    private struct State {
        weak var scheduler: Scheduler?
        /// The barriers that have not run, in order.
        var barriers: [BarrierOperation] = []
        /// Operations of other kinds that wait for a barrier, in order; requests wait in their manager.
        var held: [(barrier: BarrierOperation, operation: Operation)] = []
    }

    private let state = Locked(State())
    private let startsInPlace: Bool
    // The same as Foundation's, which takes a lock to tell.
    private let limit = Atomic(OperationQueue.defaultMaxConcurrentOperationCount)
    private let holdsBack = Atomic(false)
    private let hasBarriers = Atomic(false)

    /// - Parameter startsInPlace: whether requests may start on the thread that hands them over.
    init(startsInPlace: Bool) {
        self.startsInPlace = startsInPlace
        super.init()
    }

    /// Once, before the first request.
    func follow(_ scheduler: Scheduler) { state.withLock { $0.scheduler = scheduler } }

    private var scheduler: Scheduler? { state.withLock { $0.scheduler } }

    /// Starts an operation here and now, in the plain case; false when it has to go the way of any queue.
    ///
    /// This thread may be a transport's: no code of the user's may run here, no disk may be waited for, and not many
    /// dependents told.
    func start(_ operation: AnyRequestOperation, at moment: CompactInstant) -> Bool {
        startsInPlace && operation.options.isInternal
            && maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount && !isSuspended
            && operation.startInline(at: moment)
    }

    /// Adds a request of the manager, which has waited for its barriers.
    func add(_ operation: AnyRequestOperation) { operation.handOver { super.addOperation($0) } }

    override func addOperation(_ operation: Operation) {
        let isHeld =
            hasBarriers.load(ordering: .acquiring)
            && state.withLock { state in
                guard let barrier = state.barriers.last else { return false }
                state.held.append((barrier, operation))
                return true
            }
        if !isHeld { super.addOperation(operation) }
    }

    override func addOperations(_ operations: [Operation], waitUntilFinished: Bool) {
        for operation in operations { addOperation(operation) }
        if waitUntilFinished { for operation in operations { operation.waitUntilFinished() } }
    }

    override var maxConcurrentOperationCount: Int {
        get { limit.load(ordering: .acquiring) }
        set {
            super.maxConcurrentOperationCount = newValue
            limit.store(super.maxConcurrentOperationCount, ordering: .releasing)
            scheduler?.limitQueue(maxConcurrentOperationCount != OperationQueue.defaultMaxConcurrentOperationCount)
        }
    }

    override var isSuspended: Bool {
        get { holdsBack.load(ordering: .acquiring) }
        set {
            holdsBack.store(newValue, ordering: .releasing)
            super.isSuspended = newValue
            // As it is by then: two threads may set it.
            scheduler?.suspend { $0.isQueueSuspended = self.isSuspended }
        }
    }

    // MARK: What it knows of its requests

    /// The requests and barriers that have not finished, in the order of enqueueing.
    private var unfinished: [AnyRequestOperation] {
        scheduler?.operations { $0 != .shared }.filter { !$0.isFinished } ?? []
    }

    override func cancelAllOperations() {
        let held = state.withLock { $0.held.map(\.operation) }
        let cancel = { for operation in self.unfinished + held { operation.cancel() } }
        if let scheduler { scheduler.frozen(cancel) } else { cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        // What ends lets others start.
        while true {
            let waiting = unfinished
            for operation in waiting { operation.waitUntilFinished() }
            super.waitUntilAllOperationsAreFinished()
            if waiting.isEmpty, lastBarrier == nil { return }
        }
    }

    // MARK: Barriers

    /// The barrier that what is enqueued now has to wait for.
    var lastBarrier: BarrierOperation? {
        hasBarriers.load(ordering: .acquiring) ? state.withLock { $0.barriers.last } : nil
    }

    /// Runs a block when all that came before has finished; what is enqueued later waits for it.
    ///
    /// A member of a group counts with its group, on whichever side of the barrier that is. A request that waits for
    /// one behind the barrier would wait for ever: it ends with `.dependencyCycle`.
    override func addBarrierBlock(_ block: @escaping @Sendable () -> Void) {
        guard let scheduler else { return super.addBarrierBlock(block) }
        let barrier = BarrierOperation(scheduler, block: block)
        barrier.whenFinished(FinishHandler(place: .here) { [weak self, unowned barrier] _ in self?.remove(barrier) })
        let earlier = scheduler.operations { $0 != .shared } as [Operation] + super.operations
        let held = state.withLock { state -> [Operation] in
            let held = state.held.map(\.operation) + state.barriers.suffix(1)
            state.barriers.append(barrier)
            hasBarriers.store(true, ordering: .releasing)
            return held
        }
        for operation in earlier + held { barrier.addDependency(operation) }
        scheduler.enqueue(barrier, as: .barrier)
    }

    /// Lets in what a barrier has held back, then forgets the barrier: what is added meanwhile is held back too.
    private func remove(_ barrier: BarrierOperation) {
        while true {
            let freed = state.withLock { state -> [Operation] in
                let freed = state.held.filter { $0.barrier === barrier }.map(\.operation)
                state.held.removeAll { $0.barrier === barrier }
                if freed.isEmpty {
                    state.barriers.removeAll { $0 === barrier }
                    hasBarriers.store(!state.barriers.isEmpty, ordering: .releasing)
                }
                return freed
            }
            if freed.isEmpty { return }
            for operation in freed { super.addOperation(operation) }
        }
    }
}
