// A manager's own queue: an operation queue that knows all requests of its manager.
import Foundation
import Synchronization

// A request to which the caller may have a reference is added to the queue once it has a slot. If the queue has its
// own limit, the request is added once it is ready. A request to which only the library has a reference, as in `send`
// and batches, starts on the thread that gave it a slot. Waking a thread for each request would cost more than the
// request. Such a start requires a transport that may be called from its own callbacks.
//
// Waiting for all operations, cancelling all operations, suspension and barriers apply to both kinds, and to requests
// that wait in the manager. The list and the count of operations are Foundation's, because these properties cannot be
// overridden on Linux.
final class ManagerQueue: OperationQueue, @unchecked Sendable {
    // @unchecked: `OperationQueue` forces it. `state` has its own lock.

    private struct State {
        weak var scheduler: Scheduler?
        var barriers: [BarrierOperation] = []
        /// Added with `addOperation`, in order; requests of the manager wait for a barrier in the manager.
        var held: [(barrier: BarrierOperation, operation: Operation)] = []
    }

    private let state = Locked(State())
    // A copy of `super.maxConcurrentOperationCount`, because Foundation acquires a lock to read that property.
    private let limit = Atomic(OperationQueue.defaultMaxConcurrentOperationCount)
    private let holdsBack = Atomic(false)
    private let hasBarriers = Atomic(false)
    // Starting is brief, so one operation at a time is enough. A serial queue gets a thread when it needs one. A
    // concurrent queue would wait for one of the threads that such queues share, one for each core. Other code may
    // block all of these. The superclass does not retain it.
    let startQueue = DispatchQueue(label: "convoy.manager")

    override init() {
        super.init()
        name = "convoy.manager"
        underlyingQueue = startQueue
    }

    func follow(_ scheduler: Scheduler) { state.withLock { $0.scheduler = scheduler } }

    private var scheduler: Scheduler? { state.withLock { $0.scheduler } }

    func add(_ operation: AnyRequestOperation) -> Bool { operation.handOver { super.addOperation($0) } }

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
            // The closure reads the limit, because two threads may set it at once.
            scheduler?.limitQueue { self.limit.load(ordering: .acquiring) != Self.defaultMaxConcurrentOperationCount }
        }
    }

    override var isSuspended: Bool {
        get { holdsBack.load(ordering: .acquiring) }
        set {
            holdsBack.store(newValue, ordering: .releasing)
            super.isSuspended = newValue
            // The closure reads the current value, because two threads may set the property at once.
            scheduler?.suspend { $0.isQueueSuspended = self.isSuspended }
        }
    }

    // MARK: Requests of the manager

    private var unfinished: [AnyRequestOperation] {
        scheduler?.operations { $0 != .shared }.filter { !$0.isFinished } ?? []
    }

    override func cancelAllOperations() {
        let held = state.withLock { $0.held.map(\.operation) }
        let cancel = { for operation in self.unfinished + held { operation.cancel() } }
        if let scheduler { scheduler.holdingStarts(cancel) } else { cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        // When an operation finishes, others may start. So the loop looks again.
        while true {
            let waiting = unfinished
            for operation in waiting { operation.waitUntilFinished() }
            super.waitUntilAllOperationsAreFinished()
            if waiting.isEmpty, lastBarrier == nil { return }
        }
    }

    // MARK: Barriers

    var lastBarrier: BarrierOperation? {
        hasBarriers.load(ordering: .acquiring) ? state.withLock { $0.barriers.last } : nil
    }

    // A member of a group counts with its group, on either side of the barrier. A request before the barrier that waits
    // for a request after it would deadlock, so it fails with `.dependencyCycle`.
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

    /// Until it is removed, the barrier still delays further operations.
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

// A barrier as an operation among the requests, so that a cycle through it is found like any other. Callers never see it.
final class BarrierOperation: AnyRequestOperation, @unchecked Sendable {
    // @unchecked: this class adds only the constant `block`, which has its own lock.

    private static let queue = DispatchQueue(label: "convoy.barriers", attributes: .concurrent)
    private let block: Locked<(@Sendable () -> Void)?>

    init(_ scheduler: Scheduler, block: @escaping @Sendable () -> Void) {
        self.block = Locked(block)
        super.init(requestPlan: .none, scheduler: scheduler, isMonitored: false)
        name = "a barrier"
    }

    /// Ignores a cancellation while the block is running: the barrier finishes after the block.
    override func postpones(_ outcome: AnyOutcome) -> Bool { isExecuting }

    override func begin() {
        // The block may be slow, so it has its own thread.
        Self.queue.async {
            let block = self.block.withLock { block in
                defer { block = nil }
                return block
            }
            block?()
            self.conclude(AnyOutcome(error: nil))
        }
    }
}
