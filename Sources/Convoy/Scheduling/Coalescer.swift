// Coalescing: equal requests that share one transfer.
import Foundation

/// What makes two requests equal: they may share a transfer.
///
/// A reference: the ticket of a queued operation stays small.
final class CoalescingKey: Sendable {
    let request: PreparedRequest
    let acceptableStatusCodes: StatusCheck?
    let acceptableContentTypes: ContentTypeCheck?
    let bodyLimit: Int64?
    let usesManagerInterceptors: Bool
    let exclusion: String?
    /// It goes without the credentials that another for that URL has.
    let hasLeftOrigin: Bool

    /// Nil for a request that shares nothing.
    init?(_ core: RequestCore, _ request: PreparedRequest) {
        // Interceptors of its own may send it in another's name.
        guard let policies = core.policyBox?.policies, policies.isCoalesced, policies.interceptors.isEmpty,
            request.method == .get, request.body == nil, case .memory = core.destination, !core.decodesRefusals
        else { return nil }
        self.request = request
        acceptableStatusCodes = policies.acceptableStatusCodes
        acceptableContentTypes = policies.acceptableContentTypes
        bodyLimit = policies.bodyLimit
        usesManagerInterceptors = policies.usesManagerInterceptors
        exclusion = policies.exclusion
        hasLeftOrigin = policies.hasLeftOrigin || policies.isMirror
    }
}

extension CoalescingKey: Hashable {
    static func == (left: CoalescingKey, right: CoalescingKey) -> Bool {
        left.request == right.request && left.acceptableStatusCodes == right.acceptableStatusCodes
            && left.acceptableContentTypes == right.acceptableContentTypes
            && left.bodyLimit == right.bodyLimit
            && left.usesManagerInterceptors == right.usesManagerInterceptors && left.exclusion == right.exclusion
            && left.hasLeftOrigin == right.hasLeftOrigin
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(request)
        hasher.combine(bodyLimit)
    }
}

/// The transfers that are shared: each is an operation of its own, with subscribers that wait for its answer.
///
/// A value, without lock; each change costs O(1), however many subscribe.
struct Coalescer {
    private struct Subscriber {
        let operation: AnyRequestOperation
        /// As its scheduler was told: an older word is dropped.
        var priority: Versioned<Operation.QueuePriority>
        /// The key of its own that it came with: one that has left and come again is another subscriber.
        let key: CoalescingKey
    }

    private struct SharedTransfer {
        let operation: RequestOperation<Data>
        var subscribers: [ObjectIdentifier: Subscriber] = [:]
        /// How many subscribers there are of each priority.
        var counts = [0, 0, 0, 0, 0]
        /// How often that has changed.
        var changes: UInt32 = 0

        mutating func set(_ subscriber: Subscriber?, for operation: AnyRequestOperation) {
            changes &+= 1
            let old = subscribers.removeValue(forKey: ObjectIdentifier(operation))
            if let old { counts[old.priority.value.priorityIndex] -= 1 }
            guard let subscriber else { return }
            subscribers[ObjectIdentifier(operation)] = subscriber
            counts[subscriber.priority.value.priorityIndex] += 1
        }
    }

    private var transfers: [CoalescingKey: SharedTransfer] = [:]

    /// Adds a subscriber; a new operation that is not needed, because there is one, is not used.
    ///
    /// - Returns: the operation that fetches the answer, and whether it is the new one.
    mutating func join(
        _ operation: AnyRequestOperation, _ priority: Versioned<Operation.QueuePriority>, _ key: CoalescingKey,
        new: RequestOperation<Data>
    ) -> (shared: RequestOperation<Data>, isNew: Bool) {
        let isNew = transfers[key] == nil
        let shared = transfers[key]?.operation ?? new
        transfers[key, default: SharedTransfer(operation: shared)].set(
            Subscriber(operation: operation, priority: priority, key: key), for: operation)
        return (shared, isNew)
    }

    /// Takes in a word of a subscriber's priority.
    mutating func tell(
        _ priority: Versioned<Operation.QueuePriority>, of operation: AnyRequestOperation, _ key: CoalescingKey
    ) {
        guard var subscriber = subscriber(operation, key), subscriber.priority.take(priority) else { return }
        transfers[key]?.set(subscriber, for: operation)
    }

    private func subscriber(_ operation: AnyRequestOperation, _ key: CoalescingKey) -> Subscriber? {
        transfers[key]?.subscribers[ObjectIdentifier(operation)].flatMap { $0.key === key ? $0 : nil }
    }

    /// Takes a subscriber off; the result is the operation that fetched for it, if that was its last subscriber.
    ///
    /// - Parameter key: the very key it came with; without effect when it has come again since, with another.
    mutating func leave(_ operation: AnyRequestOperation, _ key: CoalescingKey) -> RequestOperation<Data>? {
        guard subscriber(operation, key) != nil else { return nil }
        transfers[key]?.set(nil, for: operation)
        return transfers[key]?.subscribers.isEmpty == true ? transfers.removeValue(forKey: key)?.operation : nil
    }

    /// A shared operation has finished: requests that come now are too late for it.
    ///
    /// - Returns: its subscribers.
    mutating func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) -> [AnyRequestOperation] {
        guard transfers[key]?.operation === shared else { return [] }
        return transfers.removeValue(forKey: key).map { $0.subscribers.values.map(\.operation) } ?? []
    }

    func subscribers(_ key: CoalescingKey) -> [AnyRequestOperation] {
        transfers[key].map { $0.subscribers.values.map(\.operation) } ?? []
    }

    func operation(_ key: CoalescingKey) -> RequestOperation<Data>? { transfers[key]?.operation }

    /// The highest priority among the subscribers, with the number of the change.
    func priority(_ key: CoalescingKey) -> Versioned<Operation.QueuePriority>? {
        guard let transfer = transfers[key] else { return nil }
        return transfer.counts.firstIndex { $0 > 0 }.map {
            Versioned(Operation.QueuePriority(priorityIndex: $0), version: transfer.changes)
        }
    }
}

extension Scheduler {
    /// Has an operation share the transfer of equal ones; false when it is sent by itself.
    func share(_ operation: AnyRequestOperation) -> Bool {
        let given = operation.state.withLock { state in
            state.followUp?.sharedAnswer == nil
                ? state.requestPlan?.core.flatMap { core in state.prepared.map { (core, $0) } } : nil
        }
        guard let (given, request) = given, let key = CoalescingKey(given, request) else { return false }
        var core = given
        guard let priority = change(operation, { $0.shares($1, key, host: request.hostKey) ? $1.priority : nil }) ?? nil
        else { return false }
        // The request that is sent: everything of the first subscriber's but what is each subscriber's own.
        core.policies.isCoalesced = false
        core.policies.deadline = nil
        core.policies.inheritedDeadline = nil
        (core.tags, core.name, core.decodesAtOnce) = ([], nil, true)
        core.priority = priority.value
        let made = RequestOperation<Data>(
            requestPlan: RequestPlan(Request<Data>(core: core) { body, _ in body.data }), context: context,
            isUnseen: true)
        let (shared, isNew) = coalescer.withLock { $0.join(operation, priority, key, new: made) }
        if isNew {
            // There may be many subscribers, and the end of a transfer is told on the transport's thread.
            shared.whenFinished(FinishHandler(place: .lane) { [unowned shared] _ in self.end(shared, key) })
            // Before its end, on the same lane; one call at a time, however fast the bytes come.
            shared.tellProgress(at: .lane) { progress in
                for operation in self.coalescer.withLock({ $0.subscribers(key) }) { operation.carry(progress) }
            }
            enqueue(shared, isShared: true)
        } else {
            // On the lane on which it is told of what follows.
            shared.onLane {
                let progress = shared.progress
                if progress != TransferProgress() { operation.carry(progress) }
            }
        }
        // It may have ended, or got a dependency or another priority, before it had joined.
        let latest = change(operation) { _, ticket in
            ticket.status == .sharing && ticket.sharedTransfer === key ? ticket.priority : nil
        }
        if let latest = latest ?? nil {
            setPriority(latest, of: operation, sharing: key)
        } else {
            leaveSharedTransfer(operation, key)
        }
        return true
    }

    /// The priority of an operation that shares a transfer: the highest among the subscribers counts.
    func setPriority(
        _ priority: Versioned<Operation.QueuePriority>, of operation: AnyRequestOperation, sharing key: CoalescingKey
    ) {
        coalescer.withLock { $0.tell(priority, of: operation, key) }
        setPriority(ofTransfer: key)
    }

    private func setPriority(ofTransfer key: CoalescingKey) {
        let told = coalescer.withLock { coalescer in
            coalescer.operation(key).flatMap { shared in coalescer.priority(key).map { (shared, $0) } }
        }
        if let (shared, priority) = told { shared.follow(priority) }
    }

    func leaveSharedTransfer(_ operation: AnyRequestOperation, _ key: CoalescingKey) {
        if let shared = coalescer.withLock({ $0.leave(operation, key) }) {
            shared.cancel()
        } else {
            setPriority(ofTransfer: key)
        }
    }

    /// Hands the answer to the subscribers, each on its own lane.
    private func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) {
        guard let result = shared.result else { return }
        let progress = shared.progress
        let answer = result.map { SharedAnswer($0) }
        for operation in coalescer.withLock({ $0.end(shared, key) }) {
            operation.onLane { self.hand(answer, progress, to: operation) }
        }
    }

    private func hand(
        _ result: Result<SharedAnswer, RequestError>, _ progress: TransferProgress, to operation: AnyRequestOperation
    ) {
        let answer: SharedAnswer
        switch result {
        case .success(let shared): answer = shared
        case .failure(let error):
            return operation.conclude(AnyOutcome(error: operation.error(from: error)), onlyBeforeStart: true)
        }
        operation.state.withLock { state in
            state.makeFollowUp().sharedAnswer = answer
            state.progress = progress
        }
        let suspension = operation.suspension
        if change(operation, { $0.answerCame($1, suspension) }) == true { handOver(operation) }
    }
}

extension AnyRequestOperation {
    /// The failure of the transfer it shares, as this operation's own.
    fileprivate func error(from error: RequestError) -> RequestError {
        guard error.code == .cancelled else { return error }
        return RequestError(
            .cancelled, "the transfer it shared was cancelled", summary: request?.summary ?? RequestSummary(text: label)
        )
    }
}
