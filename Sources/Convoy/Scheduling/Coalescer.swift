// Coalescing: equal requests that share one transfer.
import Foundation

/// What makes two requests equal: they may share a transfer.
///
/// A reference: the queue entry of a queued operation stays small.
final class CoalescingKey: Sendable {
    let request: PreparedRequest
    let acceptableStatusCodes: StatusCheck?
    let acceptableContentTypes: ContentTypeCheck?
    let bodyLimit: Int64?
    let usesManagerInterceptors: Bool
    let exclusion: String?
    let cache: CacheOptions?
    /// It goes without the credentials that another for that URL has.
    let hasLeftOrigin: Bool

    /// Nil for a request that shares nothing.
    init?(_ core: RequestCore, _ request: PreparedRequest) {
        // Interceptors of its own may send it in another's name.
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
        hasLeftOrigin = policies.hasLeftOrigin || policies.isMirror
    }
}

extension CoalescingKey: Hashable {
    static func == (left: CoalescingKey, right: CoalescingKey) -> Bool {
        left.request == right.request && left.acceptableStatusCodes == right.acceptableStatusCodes
            && left.acceptableContentTypes == right.acceptableContentTypes
            && left.bodyLimit == right.bodyLimit
            && left.usesManagerInterceptors == right.usesManagerInterceptors && left.exclusion == right.exclusion
            && left.cache == right.cache && left.hasLeftOrigin == right.hasLeftOrigin
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(request)
        hasher.combine(bodyLimit)
    }
}

/// The transfers that are shared: each is an operation of its own, with subscribers that wait for its answer.
///
/// Part of a scheduler's state: a subscriber has ``QueueEntry/Status/sharing`` exactly as long as it stands here. Each change
/// costs O(1), however many subscribe.
struct Coalescer {
    /// What a change leads to for the operation of a transfer.
    struct Change: Sendable {
        let operation: RequestOperation<Data>
        /// The highest among its subscribers; nil when the last has left: it is cancelled.
        let priority: Versioned<Operation.QueuePriority>?
    }

    private struct SharedTransfer {
        let operation: RequestOperation<Data>
        var subscribers: [ObjectIdentifier: (queueEntry: QueueEntry, priorityIndex: Int)] = [:]
        /// How many subscribers there are of each priority.
        private var counts = [0, 0, 0, 0, 0]
        /// How often that has changed.
        private var changes: UInt32 = 0

        init(_ operation: RequestOperation<Data>) { self.operation = operation }

        /// Takes a subscriber in or off; one that is there is taken in with its present priority.
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

    /// Adds a subscriber; an operation that is not needed, because there is one, is not used.
    ///
    /// - Returns: what follows for the operation that fetches the answer, and whether that is the new one.
    mutating func join(
        _ queueEntry: QueueEntry, _ key: CoalescingKey, new: RequestOperation<Data>
    ) -> (change: Change, isNew: Bool) {
        let isNew = transfers[key] == nil
        (queueEntry.status, queueEntry.sharedTransfer) = (.sharing, key)
        return (transfers[key, default: SharedTransfer(new)].set(queueEntry, isSubscriber: true), isNew)
    }

    /// The priority of a subscriber has changed.
    mutating func priorityChanged(of queueEntry: QueueEntry) -> Change? { set(queueEntry, isSubscriber: true) }

    /// Takes a subscriber off, if it is one.
    mutating func leave(_ queueEntry: QueueEntry) -> Change? {
        defer { queueEntry.sharedTransfer = nil }
        let change = set(queueEntry, isSubscriber: false)
        if let key = queueEntry.sharedTransfer, let change, change.priority == nil { transfers[key] = nil }
        return change
    }

    private mutating func set(_ queueEntry: QueueEntry, isSubscriber: Bool) -> Change? {
        // The transfer may have ended, and another of an equal key have begun.
        guard let key = queueEntry.sharedTransfer, transfers[key]?.subscribers[ObjectIdentifier(queueEntry)] != nil
        else {
            return nil
        }
        return transfers[key]?.set(queueEntry, isSubscriber: isSubscriber)
    }

    /// A shared operation has finished: requests that come now are too late for it.
    ///
    /// - Returns: its subscribers, and the key of each.
    mutating func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) -> [(AnyRequestOperation, CoalescingKey)]
    {
        guard transfers[key]?.operation === shared, let transfer = transfers.removeValue(forKey: key) else { return [] }
        return transfer.subscribers.values.compactMap { subscriber in
            guard let operation = subscriber.queueEntry.operation, let key = subscriber.queueEntry.sharedTransfer else {
                return nil
            }
            return (operation, key)
        }
    }

    func subscribers(_ key: CoalescingKey) -> [AnyRequestOperation] {
        transfers[key].map { $0.subscribers.values.compactMap(\.queueEntry.operation) } ?? []
    }

    func operation(_ queueEntry: QueueEntry) -> RequestOperation<Data>? {
        queueEntry.sharedTransfer.flatMap { transfers[$0]?.operation }
    }
}

/// An answer of one transfer for those that share it: how it gets to them.
extension Scheduler {
    /// Has an operation whose request is known share the transfer of equal ones; false when it is sent by itself.
    func share(_ operation: AnyRequestOperation, _ reference: QueueEntryReference, _ wish: SchedulerState.Wish) -> Bool
    {
        let given = operation.state.withLock { state in
            state.followUp?.sharedAnswer == nil
                ? state.requestPlan?.core.flatMap { core in state.prepared.map { (core, $0) } } : nil
        }
        guard let (given, request) = given, let key = CoalescingKey(given, request) else { return false }
        // The request that is sent: everything of the first subscriber's but what is each subscriber's own.
        var core = given
        core.policies.isCoalesced = false
        core.policies.deadline = nil
        core.policies.inheritedDeadline = nil
        (core.tags, core.name, core.decodesAtOnce) = ([], nil, true)
        core.priority = operation.queuePriority
        let made = RequestOperation<Data>(
            requestPlan: RequestPlan(Request<Data>(core: core) { body, _ in body.data }), context: context, self,
            isInternal: true)
        let joined = state.withLock { state in
            let queueEntry = reference.queueEntry(in: &state)
            return state.shares(queueEntry, key, new: made, wish)
        }
        guard let (change, isNew) = joined else { return false }
        let shared = change.operation
        if isNew {
            // There may be many subscribers, and the end of a transfer is told on the transport's thread.
            shared.whenFinished(FinishHandler(place: .executor) { [unowned shared] _ in self.end(shared, key) })
            // Before its end, on the same serial executor; one call at a time, however fast the bytes come.
            shared.notifyProgress(at: .executor) { progress in
                for operation in self.state.withLock({ $0.coalescer.subscribers(key) }) { operation.carry(progress) }
            }
            enqueue(shared, as: .shared)
        } else {
            // On the serial executor on which it is told of what follows.
            shared.onExecutor {
                let progress = shared.progress
                if progress != TransferProgress() { operation.carry(progress) }
            }
        }
        perform(change)
        return true
    }

    /// Has the operation of a transfer follow its subscribers.
    func perform(_ change: Coalescer.Change) {
        if let priority = change.priority { change.operation.follow(priority) } else { change.operation.cancel() }
    }

    /// Hands the answer to the subscribers, each on its own serial executor.
    private func end(_ shared: RequestOperation<Data>, _ key: CoalescingKey) {
        guard let result = shared.result else { return }
        let progress = shared.progress
        let answer = result.map { SharedAnswer($0) }
        for (operation, key) in state.withLock({ $0.coalescer.end(shared, key) }) {
            operation.onExecutor { self.hand(answer, progress, of: key, to: operation) }
        }
    }

    private func hand(
        _ result: Result<SharedAnswer, RequestError>, _ progress: TransferProgress, of key: CoalescingKey,
        to operation: AnyRequestOperation
    ) {
        switch result {
        case .failure(let error):
            guard change(operation, { state, queueEntry in queueEntry.shares(key) }) == true else { return }
            operation.conclude(AnyOutcome(error: operation.error(from: error)))
        case .success(let answer):
            let suspension = operation.suspension
            operation.state.withLock { state in
                state.makeFollowUp().sharedAnswer = answer
                state.progress = progress
            }
            if let next = change(operation, { $0.answerCame($1, of: key, suspension) }) ?? nil {
                perform(next, for: operation)
            } else {
                // It has been given something to wait for meanwhile, and asks again behind that.
                operation.state.withLock { state in
                    if state.machine.phase == .pending { state.followUp?.sharedAnswer = nil }
                }
            }
        }
    }
}

extension QueueEntry {
    /// Whether it waits for the answer of this very transfer.
    func shares(_ key: CoalescingKey) -> Bool { status == .sharing && sharedTransfer === key }
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
