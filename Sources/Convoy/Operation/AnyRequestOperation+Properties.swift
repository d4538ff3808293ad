// What the caller reads of an operation, and the values that it stores there.
import Foundation

extension AnyRequestOperation {
    /// The tags of the request; empty for a chain's link until its request has been built.
    public var tags: Set<String> { state.withLock { $0.requestPlan?.request.tags ?? $0.followUp?.finalTags ?? [] } }

    /// The request with the manager's defaults, before interceptors and redirects; nil until it has been checked.
    public var request: PreparedRequest? { state.withLock { $0.prepared } }

    /// The failure; nil before the outcome and after a success.
    public var error: RequestError? { state.withLock { $0.outcome?.error } }

    /// The number of the running attempt, from 1; nil if none is running.
    public var attempt: Int? { state.withLock { $0.machine.currentAttempt } }

    /// A record of each attempt so far, in order.
    ///
    /// A finished operation lists every attempt, including the last.
    ///
    /// Empty if nothing was sent. An operation that shared a transfer lists the attempts of that transfer.
    public var attempts: [AttemptRecord] {
        let (outcome, records) = state.withLock { ($0.outcome, $0.followUp?.records ?? []) }
        return outcome?.attempts ?? records
    }

    /// The bytes transferred so far.
    public var progress: TransferProgress { state.withLock { $0.progress } }

    /// The timings recorded so far.
    public var timings: Timings { state.withLock { $0.timings } }

    /// Values that the caller stores in the operation.
    ///
    /// The initial values are those of ``Request/userInfo(_:_:)``.
    ///
    /// The values are available before the start and after the finish. A chain's link has none until its request has
    /// been built, unless they were set here.
    ///
    /// - Thread: any. The values are released with the operation.
    public final var userInfo: [String: any Sendable] {
        get {
            state.withLock { $0.followUp?.userInfo ?? $0.requestPlan?.core?.policyBox?.policies.userInfo ?? [:] }
        }
        set {
            let old = state.withLock { state in
                let followUp = state.makeFollowUp()
                defer { followUp.userInfo = newValue }
                return followUp.userInfo
            }
            // The old values are released outside the lock, because a deinit may call back.
            withExtendedLifetime(old) {}
        }
    }

    /// Enters a dispatch group.
    ///
    /// The operation leaves the group once the outcome is set and every handler added before has returned.
    ///
    /// ```swift
    /// let group = DispatchGroup()
    /// for operation in operations { operation.enter(group) }
    /// manager.enqueue(contentsOf: operations)
    /// group.notify(queue: .main) { showAll() }
    /// ```
    ///
    /// Each call enters the group once and leaves it once, whatever the outcome.
    ///
    /// An operation without an outcome never leaves the group, so enqueue, start or cancel each operation.
    ///
    /// - Thread: any. The group is left on any thread, or on the calling thread if all handlers have returned before.
    @discardableResult
    public final func enter(_ group: DispatchGroup) -> Self {
        group.enter()
        whenSettled { _ in group.leave() }
        return self
    }
}
