// What decides when operations run, as they see it.
import Foundation

/// Decides when the operations that it was given run.
///
/// An operation tells what happens to it that matters to others, and asks before it takes what they share. No member is
/// called under a lock of the operation's; each may call the operation back. News of a change carries the number of the
/// change: it may come late, twice and in any order.
protocol OperationScheduler: AnyObject, Sendable {
    /// What its operations share.
    var context: ExecutionContext { get }
    /// The operation queue of its manager.
    var queue: OperationQueue { get }

    /// Takes an operation that was started without it: by another queue, or by hand.
    func adopt(_ operation: AnyRequestOperation)
    /// Whether an operation that has been started may send at once. After false it has no slot, and asks for one by
    /// ``requeue(_:)``.
    func begins(_ reference: QueueEntryReference, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool
    /// An operation has been started whose answer another has fetched: it sends nothing.
    func beginsWithAnswer(_ operation: AnyRequestOperation)
    /// Has the cache look for what answers an attempt that has its slot; what it has found, or nil, follows.
    func lookUp(
        _ request: PreparedRequest, for operation: AnyRequestOperation,
        _ then: @escaping @Sendable ((any CacheExchange)?) -> Void)
    /// An operation has an outcome before its start; true when no queue starts it, and it is to be started at once.
    func abandoned(_ operation: AnyRequestOperation, _ reference: QueueEntryReference) -> Bool
    /// An operation has finished: its slot is free. Settled: its last callback has returned, too.
    func finished(_ reference: QueueEntryReference, isSettled: Bool, wasCancelled: Bool)
    /// The last callback of an operation has returned.
    func settled(_ reference: QueueEntryReference)

    /// An operation waits for something else than a slot: others may have its slot. Intercepted: it waits for interceptors.
    /// Unsent: it has sent nothing since it got the slot.
    func yieldSlot(_ operation: AnyRequestOperation, isIntercepted: Bool, isUnsent: Bool)
    /// Interceptors are done with an operation for good.
    func leaveInterceptors(_ operation: AnyRequestOperation)
    /// An operation that has begun is ready for an attempt, and waits for a slot.
    func requeue(_ operation: AnyRequestOperation)

    /// A dependency of an operation was added, removed or has finished.
    func dependenciesChanged(of operation: AnyRequestOperation, _ reference: QueueEntryReference)
    /// An operation was suspended or resumed, or has come to rest because it was suspended.
    func suspensionChanged(
        of operation: AnyRequestOperation, to suspension: Versioned<OperationStateMachine.Suspension>)
    /// The priority of an operation was changed.
    func priorityChanged(of operation: AnyRequestOperation, to priority: Versioned<Operation.QueuePriority>)

    /// A host wants to be left alone until a moment.
    func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason)
    /// Learns from the end of an attempt what its host takes.
    func sample(
        from operation: AnyRequestOperation, started: ContinuousClock.Instant, statusCode: Int?, failure: RequestError?)
    /// Whether one more retry is within the budget.
    func takeFromRetryBudget() -> Bool
    /// Whether requests to a host wait for a network; then it is looked whether there is one, and the call follows.
    func lookForNetwork(to host: String, _ then: @escaping @Sendable (_ isConnected: Bool) -> Void) -> Bool
    /// Whether an operation that found no file descriptor may find one later.
    func mayGetDescriptor(_ operation: AnyRequestOperation) -> Bool
    /// An operation has given its slot and its files back, and tries again when another has ended.
    func awaitDescriptor(_ operation: AnyRequestOperation, host: String)

    /// Whether an operation is in the operation queue, which decides itself when it starts.
    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool
    /// What an operation waits for, for people.
    func why(_ operation: AnyRequestOperation) -> String
}

extension OperationScheduler {
    /// An operation waits for something else than a slot or its interceptors.
    func yieldSlot(_ operation: AnyRequestOperation) {
        yieldSlot(operation, isIntercepted: false, isUnsent: false)
    }
}

/// An operation's place in its scheduler, which alone can tell what it is.
struct QueueEntryReference: @unchecked Sendable {
    // @unchecked: the scheduler that made it looks into it under its own lock only.
    let place: AnyObject
}
