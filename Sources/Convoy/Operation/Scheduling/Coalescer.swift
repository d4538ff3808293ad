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

// Part of a manager's schedule. Each transfer is a separate operation. A listed subscriber waits for the transfer until
// the response is delivered to it. Each change costs O(1), for any number of subscribers.
struct Coalescer {
    struct Change: Sendable {
        let operation: RequestOperation<Data>
        /// The highest priority of the subscribers; nil if the last one has left, so that the operation is cancelled.
        let priority: Operation.QueuePriority?
    }

    private struct SharedTransfer {
        let operation: RequestOperation<Data>
        var subscribers: [ObjectIdentifier: (operation: AnyRequestOperation, priorityIndex: Int)] = [:]
        var counts = [0, 0, 0, 0, 0]

        mutating func set(_ subscriber: AnyRequestOperation, isSubscriber: Bool) -> Change {
            if let old = subscribers.removeValue(forKey: ObjectIdentifier(subscriber)) {
                counts[old.priorityIndex] -= 1
            }
            if isSubscriber {
                let priorityIndex = subscriber.record.priority.priorityIndex
                subscribers[ObjectIdentifier(subscriber)] = (subscriber, priorityIndex)
                counts[priorityIndex] += 1
            }
            let highest = counts.firstIndex { $0 > 0 }.map { Operation.QueuePriority(priorityIndex: $0) }
            return Change(operation: operation, priority: highest)
        }
    }

    private var transfers: [CoalescingKey: SharedTransfer] = [:]

    /// Adds a subscriber to a transfer; the new operation is used only if no transfer exists.
    mutating func join(
        _ operation: AnyRequestOperation, _ key: CoalescingKey, new: RequestOperation<Data>
    ) -> (change: Change, isNew: Bool) {
        let isNew = transfers[key] == nil
        operation.record.sharedTransfer = key
        return (transfers[key, default: SharedTransfer(operation: new)].set(operation, isSubscriber: true), isNew)
    }

    mutating func priorityChanged(of operation: AnyRequestOperation) -> Change? { set(operation, isSubscriber: true) }

    mutating func leave(_ operation: AnyRequestOperation) -> Change? {
        defer { operation.record.sharedTransfer = nil }
        let change = set(operation, isSubscriber: false)
        if let key = operation.record.sharedTransfer, let change, change.priority == nil { transfers[key] = nil }
        return change
    }

    private mutating func set(_ operation: AnyRequestOperation, isSubscriber: Bool) -> Change? {
        // The transfer may have ended, and another with an equal key may have begun.
        guard let key = operation.record.sharedTransfer,
            transfers[key]?.subscribers[ObjectIdentifier(operation)] != nil
        else { return nil }
        return transfers[key]?.set(operation, isSubscriber: isSubscriber)
    }

    mutating func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) -> [(AnyRequestOperation, CoalescingKey)]
    {
        guard transfers[key]?.operation === shared, let transfer = transfers.removeValue(forKey: key) else { return [] }
        return transfer.subscribers.values.compactMap { subscriber in
            subscriber.operation.record.sharedTransfer.map { (subscriber.operation, $0) }
        }
    }

    func subscribers(_ key: CoalescingKey) -> [AnyRequestOperation] {
        transfers[key].map { $0.subscribers.values.map(\.operation) } ?? []
    }

    func operation(_ subscriber: AnyRequestOperation) -> RequestOperation<Data>? {
        subscriber.record.sharedTransfer.flatMap { transfers[$0]?.operation }
    }
}

extension Scheduler {
    /// Makes an operation with a known request share an equal transfer; false if the operation must send its request.
    func share(_ operation: AnyRequestOperation) -> Bool {
        let given = operation.withLock { record in
            record.followUp?.sharedAnswer == nil
                ? record.requestPlan?.core.flatMap { core in record.prepared.map { (core, $0) } } : nil
        }
        guard let (given, request) = given, let key = CoalescingKey(given, request) else { return false }
        // The shared request is the first subscriber's, without the properties that concern only one subscriber. Each
        // subscriber has its own deadline, so the transfer has none, not even the manager's.
        var core = given
        (core.policies.isCoalesced, core.policies.deadline, core.policies.inheritedDeadline) = (false, .some(nil), nil)
        (core.tags, core.name, core.decodesAtOnce, core.priority) = ([], nil, true, operation.queuePriority)
        let made = RequestOperation(Request<Data>(core: core) { body, _ in body.data }, of: self, isInternal: true)
        guard let (shared, isNew) = changing({ $0.share(operation, key, new: made) }) else { return false }
        if isNew {
            // There may be many subscribers, and a transfer finishes on the transport's thread. So the handler runs on
            // the executor.
            shared.whenFinished(FinishHandler(place: .executor) { [unowned shared] _ in self.end(shared, key) })
            // Progress uses the same serial executor, so it is reported before the outcome. At most one call is
            // pending, however fast bytes arrive.
            shared.notifyProgress(at: .executor) { progress in
                for operation in self.schedule.withLock({ $0.coalescer.subscribers(key) }) {
                    operation.reportShared(progress)
                }
            }
            enqueue(shared, as: .shared)
        } else {
            // The closure runs on the serial executor that also delivers later progress.
            shared.onExecutor {
                let progress = shared.progress
                if progress != TransferProgress() { operation.reportShared(progress) }
            }
        }
        return true
    }

    private func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) {
        guard let result = shared.result else { return }
        let progress = shared.progress
        for (operation, key) in schedule.withLock({ $0.coalescer.end(shared, key) }) {
            operation.onExecutor { self.hand(result, progress, of: key, to: operation) }
        }
    }

    private func hand(
        _ result: Result<Response<Data>, RequestError>, _ progress: TransferProgress, of key: CoalescingKey,
        to operation: AnyRequestOperation
    ) {
        switch result {
        case .failure(let error):
            let isShared = operation.withLock { record in
                let isShared = record.phase == .waiting(.transfer) && record.sharedTransfer === key
                if isShared, error.code != .cancelled { record.progress = progress }
                return isShared
            }
            guard isShared else { return }
            guard error.code == .cancelled else {
                return operation.conclude(AnyOutcome(error: error, failedAttempts: error.attempts))
            }
            operation.conclude(.cancelled, "the transfer that it shared was cancelled")
        case .success(let answer):
            // An operation that no longer waits for this transfer sends its request, or shares another one.
            operation.perform(changing { $0.answerCame(operation, of: key, answer, progress) })
        }
    }
}
