// A manager's own queue: Foundation's, which knows all requests of its manager.
import Foundation
import Synchronization

/// The operation queue of a manager that was not given one.
///
/// Requests that a caller may hold are operations in it as in any queue, from the moment they have a slot. Requests that only
/// the library holds (of `send` and of batches) start on the thread that hands them over, where the transport may be called
/// from its own callbacks: waking a thread for each costs more than the request. Waiting for all, cancelling all,
/// suspension and barriers mean both, and those too that wait in the manager for a slot. The list and the count cannot be
/// overridden on Linux: they are Foundation's.
final class ManagerQueue: OperationQueue, @unchecked Sendable {
    // @unchecked: `OperationQueue` forces it. `state` is a lock of its own.

    /// What the manager knows of its requests.
    struct Members: Sendable {
        /// Those that have not finished, in the order of enqueueing.
        let unfinished: @Sendable () -> [AnyRequestOperation]
        /// Holds back what is enqueued later; the result is the manager's half, nil when that has gone.
        let addBarrier: @Sendable (_ block: @escaping @Sendable () -> Void) -> Scheduler?
    }

    private struct State {
        var members: Members?
        /// How many barriers were added, and how many of them have run.
        var barriers = (added: 0, run: 0)
        /// What else waits for a barrier to run, in order: requests wait in their manager.
        var held: [(barrier: Int, operation: Operation)] = []

        /// One more has run; the result is what it has held.
        mutating func pass() -> [Operation] {
            barriers.run += 1
            defer { held.removeAll { $0.barrier <= barriers.run } }
            return held.filter { $0.barrier <= barriers.run }.map(\.operation)
        }
    }

    private let state = Locked(State())
    private let startsInPlace: Bool
    // The same as Foundation's, which takes a lock to tell.
    private let limit = Atomic(OperationQueue.defaultMaxConcurrentOperationCount)
    private let holdsBack = Atomic(false)
    private let barrierQueue = DispatchQueue(label: "convoy.manager.barriers")

    /// - Parameter startsInPlace: whether requests may start on the thread that hands them over.
    init(startsInPlace: Bool) {
        self.startsInPlace = startsInPlace
        super.init()
    }

    /// Once, before the first request.
    func follow(_ members: Members) { state.withLock { $0.members = members } }

    /// Starts an operation here and now, in the plain case; false when it has to go the way of any queue.
    ///
    /// This thread may be a transport's: no code of the user's may run here, no disk may be waited for, and not many
    /// dependents told.
    func start(_ operation: AnyRequestOperation) -> Bool {
        startsInPlace && operation.traits.isUnseen
            && maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount && !isSuspended
            && operation.startInPassing()
    }

    /// Adds a request of the manager, whose barriers it has behind it.
    func add(_ operation: AnyRequestOperation) { operation.handOver { super.addOperation($0) } }

    override func addOperation(_ operation: Operation) {
        let isHeld = state.withLock { state in
            guard state.barriers.run < state.barriers.added else { return false }
            state.held.append((state.barriers.added, operation))
            return true
        }
        if !isHeld { super.addOperation(operation) }
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

    // MARK: What it knows of its requests

    private var unfinished: [AnyRequestOperation] { state.withLock { $0.members }?.unfinished() ?? [] }

    override func cancelAllOperations() {
        let held = state.withLock { $0.held.map(\.operation) }
        for operation in unfinished + held { operation.cancel() }
        super.cancelAllOperations()
    }

    override func waitUntilAllOperationsAreFinished() {
        // What ends lets others start.
        while true {
            let waiting = unfinished
            for operation in waiting { operation.waitUntilFinished() }
            let hasBarriers = state.withLock { $0.barriers.run < $0.barriers.added }
            if hasBarriers { barrierQueue.sync {} }
            super.waitUntilAllOperationsAreFinished()
            if waiting.isEmpty, !hasBarriers { return }
        }
    }

    // MARK: Barriers

    /// Runs a block when all that came before has finished; what is enqueued later waits for it.
    ///
    /// A request that waits for another one then is not waited for, nor is a group: that other may come behind the barrier.
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        guard let scheduler = state.withLock({ $0.members })?.addBarrier(barrier) else {
            return super.addBarrierBlock(barrier)
        }
        state.withLock { $0.barriers.added += 1 }
        barrierQueue.async { self.runBarrier(of: scheduler) }
    }

    /// Waits for what came before the first barrier, runs it, and lets in what came behind it, up to the next barrier.
    private func runBarrier(of scheduler: Scheduler) {
        guard let barrier = scheduler.takeBarrier() else { return }
        for operation in barrier.earlier { operation.waitUntilFinished() }
        super.waitUntilAllOperationsAreFinished()
        barrier.block()
        for operation in state.withLock({ $0.pass() }) { addAtOnce(operation) }
        scheduler.passBarrier()
    }

    /// Adds what has its barriers behind it.
    func addAtOnce(_ operation: Operation) { super.addOperation(operation) }
}
