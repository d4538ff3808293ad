// Coalescing: equal requests share one transfer.
import Foundation

/// A class, so that queue entries stay small.
final class CoalescingKey: Sendable {
    let request: PreparedRequest
    let acceptableStatusCodes: StatusCheck?
    let acceptableContentTypes: ContentTypeCheck?
    let bodyLimit: Int64?
    let usesManagerInterceptors: Bool
    let exclusion: String?
    let cache: CacheOptions?
    let maxBytesPerSecond: Int64?
    let sharedRateLimit: RateLimit?
    let minimumSpeed: MinimumSpeed?
    /// Whether the request goes to another origin, after a redirect or to a mirror, so that credentials are not sent.
    let hasLeftOrigin: Bool

    /// Nil for a request that must not share a transfer.
    init?(_ core: RequestCore, _ request: PreparedRequest) {
        // A request's own interceptors may add credentials of another user.
        guard let policies = core.policyBox?.policies, policies.isCoalesced, policies.interceptors.isEmpty,
            request.method == .get, request.body == nil, case .memory = core.destination,
            !core.answerRules.decodesRefusals
        else { return nil }
        self.request = request
        acceptableStatusCodes = policies.acceptableStatusCodes
        acceptableContentTypes = policies.acceptableContentTypes
        bodyLimit = policies.bodyLimit
        usesManagerInterceptors = policies.usesManagerInterceptors
        (exclusion, cache) = (policies.exclusion, policies.cache)
        (maxBytesPerSecond, sharedRateLimit) = (policies.maxBytesPerSecond, policies.sharedRateLimit)
        minimumSpeed = policies.minimumSpeed
        hasLeftOrigin = policies.hasLeftOrigin || policies.isMirror
    }
}

extension CoalescingKey: Hashable {
    static func == (left: CoalescingKey, right: CoalescingKey) -> Bool {
        left.request == right.request && left.acceptableStatusCodes == right.acceptableStatusCodes
            && left.acceptableContentTypes == right.acceptableContentTypes
            && left.bodyLimit == right.bodyLimit
            && left.usesManagerInterceptors == right.usesManagerInterceptors && left.exclusion == right.exclusion
            && left.cache == right.cache && left.maxBytesPerSecond == right.maxBytesPerSecond
            && left.sharedRateLimit === right.sharedRateLimit && left.minimumSpeed == right.minimumSpeed
            && left.hasLeftOrigin == right.hasLeftOrigin
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(request)
        hasher.combine(bodyLimit)
    }
}

// Part of a scheduler's state. Each transfer is a separate operation. A listed subscriber has the status
// ``QueueEntry/Status/sharing`` until the response is delivered to it. Each change costs O(1), for any number of
// subscribers.
struct Coalescer {
    struct Change: Sendable {
        let operation: RequestOperation<Data>
        /// The highest priority of the subscribers; nil if the last one has left, so that the operation is cancelled.
        let priority: Versioned<Operation.QueuePriority>?
    }

    private struct SharedTransfer {
        let operation: RequestOperation<Data>
        var subscribers: [ObjectIdentifier: (queueEntry: QueueEntry, priorityIndex: Int)] = [:]
        var counts = [0, 0, 0, 0, 0]
        /// The number of changes of the subscribers, used as the version of their highest priority.
        var changes: UInt32 = 0

        mutating func set(_ queueEntry: QueueEntry, isSubscriber: Bool) -> Change {
            changes &+= 1
            if let old = subscribers.removeValue(forKey: ObjectIdentifier(queueEntry)) {
                counts[old.priorityIndex] -= 1
            }
            if isSubscriber {
                let priorityIndex = queueEntry.priority.value.priorityIndex
                subscribers[ObjectIdentifier(queueEntry)] = (queueEntry, priorityIndex)
                counts[priorityIndex] += 1
            }
            let highest = counts.firstIndex { $0 > 0 }.map { Operation.QueuePriority(priorityIndex: $0) }
            return Change(operation: operation, priority: highest.map { Versioned($0, version: changes) })
        }
    }

    private var transfers: [CoalescingKey: SharedTransfer] = [:]

    var isEmpty: Bool { transfers.isEmpty }

    /// Adds a subscriber to a transfer; the new operation is used only if no transfer exists.
    mutating func join(
        _ queueEntry: QueueEntry, _ key: CoalescingKey, new: RequestOperation<Data>
    ) -> (change: Change, isNew: Bool) {
        let isNew = transfers[key] == nil
        (queueEntry.status, queueEntry.sharedTransfer) = (.sharing, key)
        return (transfers[key, default: SharedTransfer(operation: new)].set(queueEntry, isSubscriber: true), isNew)
    }

    mutating func priorityChanged(of queueEntry: QueueEntry) -> Change? { set(queueEntry, isSubscriber: true) }

    mutating func leave(_ queueEntry: QueueEntry) -> Change? {
        defer { queueEntry.sharedTransfer = nil }
        let change = set(queueEntry, isSubscriber: false)
        if let key = queueEntry.sharedTransfer, let change, change.priority == nil { transfers[key] = nil }
        return change
    }

    private mutating func set(_ queueEntry: QueueEntry, isSubscriber: Bool) -> Change? {
        // The transfer may have ended, and another with an equal key may have begun.
        guard let key = queueEntry.sharedTransfer, transfers[key]?.subscribers[ObjectIdentifier(queueEntry)] != nil
        else { return nil }
        return transfers[key]?.set(queueEntry, isSubscriber: isSubscriber)
    }

    mutating func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) -> [(AnyRequestOperation, CoalescingKey)]
    {
        guard transfers[key]?.operation === shared, let transfer = transfers.removeValue(forKey: key) else { return [] }
        return transfer.subscribers.values.compactMap { subscriber in
            guard let operation = subscriber.queueEntry.operation else { return nil }
            return subscriber.queueEntry.sharedTransfer.map { (operation, $0) }
        }
    }

    func subscribers(_ key: CoalescingKey) -> [AnyRequestOperation] {
        transfers[key].map { $0.subscribers.values.compactMap(\.queueEntry.operation) } ?? []
    }

    func operation(_ queueEntry: QueueEntry) -> RequestOperation<Data>? {
        queueEntry.sharedTransfer.flatMap { transfers[$0]?.operation }
    }
}

extension Scheduler {
    /// Makes an operation with a known request share an equal transfer; false if the operation must send its request.
    func share(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) -> Bool {
        let given = operation.withLock { state in
            state.followUp?.sharedAnswer == nil
                ? state.requestPlan?.core.flatMap { core in state.prepared.map { (core, $0) } } : nil
        }
        guard let (given, request) = given, let key = CoalescingKey(given, request), let reference = wish.queueEntry
        else { return false }
        // The shared request is the first subscriber's, without the properties that concern only one subscriber. Each
        // subscriber has its own deadline, so the transfer has none, not even the manager's.
        var core = given
        (core.policies.isCoalesced, core.policies.deadline, core.policies.inheritedDeadline) = (false, .some(nil), nil)
        (core.tags, core.name, core.decodesAtOnce, core.priority) = ([], nil, true, operation.queuePriority)
        let made = RequestOperation(Request<Data>(core: core) { body, _ in body.data }, of: self, isInternal: true)
        guard let (change, isNew) = state.withLock({ $0.shares($0[reference], key, new: made, wish) }) else {
            return false
        }
        let shared = change.operation
        if isNew {
            // There may be many subscribers, and a transfer finishes on the transport's thread. So the handler runs on
            // the executor.
            shared.whenFinished(FinishHandler(place: .executor) { [unowned shared] _ in self.end(shared, key) })
            // Progress uses the same serial executor, so it is reported before the outcome. At most one call is
            // pending, however fast bytes arrive.
            shared.notifyProgress(at: .executor) { progress in
                for operation in self.state.withLock({ $0.coalescer.subscribers(key) }) { operation.carry(progress) }
            }
            enqueue(shared, as: .shared)
        } else {
            // The closure runs on the serial executor that also delivers later progress.
            shared.onExecutor {
                let progress = shared.progress
                if progress != TransferProgress() { operation.carry(progress) }
            }
        }
        perform(change)
        return true
    }

    func perform(_ change: Coalescer.Change) {
        if let priority = change.priority { change.operation.follow(priority) } else { change.operation.cancel() }
    }

    private func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) {
        guard let result = shared.result else { return }
        let progress = shared.progress
        for (operation, key) in state.withLock({ $0.coalescer.end(shared, key) }) {
            operation.onExecutor { self.hand(result, progress, of: key, to: operation) }
        }
    }

    private func hand(
        _ result: Result<Response<Data>, RequestError>, _ progress: TransferProgress, of key: CoalescingKey,
        to operation: AnyRequestOperation
    ) {
        switch result {
        case .failure(let error):
            guard change(operation, { $1.shares(key) }) == true else { return }
            guard error.code == .cancelled else {
                operation.withLock { if $0.outcome == nil { $0.progress = progress } }
                return operation.conclude(AnyOutcome(error: error, failedAttempts: error.attempts))
            }
            operation.conclude(.cancelled, "the transfer that it shared was cancelled")
        case .success(let answer):
            let suspension = operation.suspension
            operation.withLock { state in
                state.makeFollowUp().share(answer)
                state.progress = progress
            }
            if let next = change(operation, { $0.answerCame($1, of: key, suspension) }) ?? nil {
                perform(next, for: operation)
            } else {
                // The operation no longer waits for this transfer. If it has not started, it drops the response, and
                // requests one again when it is ready.
                operation.withLock { state in
                    if state.machine.phase == .pending { state.followUp?.sharedAnswer = nil }
                }
            }
        }
    }
}
