// Coalescing: equal requests that share one transfer.
import Foundation

/// What makes two requests equal: they may share a transfer.
///
/// A reference: the ticket of a queued operation stays small.
final class CoalescingKey: Sendable {
    let request: PreparedRequest
    let acceptableStatusCodes: StatusCheck
    let acceptableContentTypes: ContentTypeCheck
    let maximumBodyBytes: Int64
    let usesManagerInterceptors: Bool

    /// Nil for a request that shares nothing.
    init?(_ core: RequestCore, _ request: PreparedRequest) {
        // Interceptors of its own may send it in another's name.
        guard let policies = core.policyBox?.policies, policies.isCoalesced, policies.interceptors.isEmpty,
            request.method == .get, request.body == nil, case .memory = core.destination, !core.decodesRefusals
        else { return nil }
        self.request = request
        acceptableStatusCodes = core.acceptableStatusCodes
        acceptableContentTypes = core.acceptableContentTypes
        maximumBodyBytes = core.maximumBodyBytes
        usesManagerInterceptors = policies.usesManagerInterceptors
    }
}

extension CoalescingKey: Hashable {
    static func == (left: CoalescingKey, right: CoalescingKey) -> Bool {
        left.request == right.request && left.acceptableStatusCodes == right.acceptableStatusCodes
            && left.acceptableContentTypes == right.acceptableContentTypes
            && left.maximumBodyBytes == right.maximumBodyBytes
            && left.usesManagerInterceptors == right.usesManagerInterceptors
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(request)
        hasher.combine(maximumBodyBytes)
    }
}

/// The transfers that are shared: each is an operation of its own, the carrier, with its riders.
///
/// A value, without lock; each change costs O(1), however many ride.
struct Coalescer {
    private struct Flight {
        let carrier: RequestOperation<Data>
        /// With the key of its own that each came with: one that has left and come again is another rider.
        var riders: [ObjectIdentifier: (operation: AnyRequestOperation, rank: Int, key: CoalescingKey)] = [:]
        /// How many riders there are of each rank.
        var counts = [0, 0, 0, 0, 0]

        mutating func set(_ rider: AnyRequestOperation, _ rank: Int?, _ key: CoalescingKey) {
            let old = riders.removeValue(forKey: ObjectIdentifier(rider))
            if let old { counts[old.rank] -= 1 }
            guard let rank else { return }
            riders[ObjectIdentifier(rider)] = (rider, rank, key)
            counts[rank] += 1
        }
    }

    private var coalescer: [CoalescingKey: Flight] = [:]

    /// Adds a rider; a carrier that is not needed, because there is one, is not used.
    ///
    /// - Returns: the carrier, and whether it is the new one.
    mutating func board(
        _ rider: AnyRequestOperation, _ priority: Operation.QueuePriority, _ key: CoalescingKey,
        new carrier: RequestOperation<Data>
    ) -> (carrier: RequestOperation<Data>, isNew: Bool) {
        let isNew = coalescer[key] == nil
        let carrier = coalescer[key]?.carrier ?? carrier
        coalescer[key, default: Flight(carrier: carrier)].set(rider, priority.rank, key)
        return (carrier, isNew)
    }

    /// Notes another priority of a rider.
    mutating func change(_ rider: AnyRequestOperation, _ priority: Operation.QueuePriority, _ key: CoalescingKey) {
        if carries(rider, key) { coalescer[key]?.set(rider, priority.rank, key) }
    }

    private func carries(_ rider: AnyRequestOperation, _ key: CoalescingKey) -> Bool {
        coalescer[key]?.riders[ObjectIdentifier(rider)]?.key === key
    }

    /// Takes a rider off; the result is the carrier, if that was its last rider.
    ///
    /// - Parameter key: the very key it came with; without effect when it has come again since, with another.
    mutating func leave(_ rider: AnyRequestOperation, _ key: CoalescingKey) -> RequestOperation<Data>? {
        guard carries(rider, key) else { return nil }
        coalescer[key]?.set(rider, nil, key)
        return coalescer[key]?.riders.isEmpty == true ? coalescer.removeValue(forKey: key)?.carrier : nil
    }

    /// The carrier has finished: requests that come now are too late for it.
    mutating func land(_ carrier: RequestOperation<Data>, _ key: CoalescingKey) -> [AnyRequestOperation] {
        guard coalescer[key]?.carrier === carrier else { return [] }
        return coalescer.removeValue(forKey: key).map { $0.riders.values.map(\.operation) } ?? []
    }

    func riders(_ key: CoalescingKey) -> [AnyRequestOperation] {
        coalescer[key].map { $0.riders.values.map(\.operation) } ?? []
    }

    func carrier(_ key: CoalescingKey) -> RequestOperation<Data>? { coalescer[key]?.carrier }

    /// The highest priority among the riders.
    func priority(_ key: CoalescingKey) -> Operation.QueuePriority? {
        coalescer[key]?.counts.firstIndex { $0 > 0 }.map { Operation.QueuePriority(rank: $0) }
    }
}

extension Scheduler {
    /// Has an operation share the transfer of equal ones; false when it is sent by itself.
    func ride(_ operation: AnyRequestOperation) -> Bool {
        guard operation.traits.mayShare else { return false }
        let given = operation.state.withLock { state in
            state.followUp?.carried == nil
                ? state.requestPlan?.core.flatMap { core in state.prepared.map { (core, $0) } } : nil
        }
        guard let (given, request) = given, let key = CoalescingKey(given, request) else { return false }
        var core = given
        let isRiding = change(operation) { state, ticket -> Bool in
            guard ticket.status == .preparing, !ticket.mustBlock else { return false }
            (ticket.status, ticket.flight, ticket.host) = (.riding, key, request.hostKey)
            return true
        }
        guard isRiding == true else { return false }
        // The carrier's own request: everything of the first rider's but what is each rider's.
        core.policies.isCoalesced = false
        core.policies.deadline = nil
        core.policies.inheritedDeadline = nil
        (core.tags, core.name, core.decodesAtOnce) = ([], nil, true)
        core.priority = operation.queuePriority
        let made = RequestOperation<Data>(
            requestPlan: RequestPlan(Request<Data>(core: core) { body, _ in body.data }), context: context,
            isUnseen: true)
        let priority = operation.queuePriority
        let (carrier, isNew) = coalescer.withLock { $0.board(operation, priority, key, new: made) }
        if isNew {
            // There may be many riders, and the end of a transfer is told on the transport's thread.
            carrier.whenFinished(FinishHandler(place: .lane) { [unowned carrier] _ in self.land(carrier, key) })
            // Before its end, on the same lane; one telling at a time, however fast the bytes come.
            carrier.watchProgress(at: .lane) { progress in
                for rider in self.coalescer.withLock({ $0.riders(key) }) { rider.carry(progress) }
            }
            enqueue(carrier, isCarrier: true)
        } else {
            setPriority(ofCarrier: key)
            // On the lane on which it is told of what follows.
            carrier.onLane {
                let progress = carrier.progress
                if progress != TransferProgress() { operation.carry(progress) }
            }
        }
        // It may have ended, or got a dependency, while it boarded.
        let rides = change(operation) { _, ticket in ticket.status == .riding && ticket.flight === key }
        if rides != true { leaveSharedTransfer(operation, key) }
        return true
    }

    /// The priority of an operation has changed: if it rides, the highest among the riders counts.
    func raiseCarrier(of operation: AnyRequestOperation) {
        guard let key = change(operation, { $1.status == .riding ? $1.flight : nil }) ?? nil else { return }
        let priority = operation.queuePriority
        coalescer.withLock { $0.change(operation, priority, key) }
        setPriority(ofCarrier: key)
    }

    private func setPriority(ofCarrier key: CoalescingKey) {
        // Until what was looked at is what was set: another thread may have changed it between the two.
        while let (carrier, priority) = coalescer.withLock({ coalescer in
            coalescer.carrier(key).flatMap { carrier in coalescer.priority(key).map { (carrier, $0) } }
        }), carrier.queuePriority != priority {
            carrier.queuePriority = priority
        }
    }

    func leaveSharedTransfer(_ operation: AnyRequestOperation, _ key: CoalescingKey) {
        if let carrier = coalescer.withLock({ $0.leave(operation, key) }) {
            carrier.cancel()
        } else {
            setPriority(ofCarrier: key)
        }
    }

    /// Hands the carrier's answer to its riders, each on its own lane.
    private func land(_ carrier: RequestOperation<Data>, _ key: CoalescingKey) {
        guard let result = carrier.result else { return }
        let progress = carrier.progress
        let answer = result.map { SharedAnswer($0) }
        for rider in coalescer.withLock({ $0.land(carrier, key) }) {
            rider.onLane { self.land(rider, answer, progress) }
        }
    }

    private func land(
        _ rider: AnyRequestOperation, _ result: Result<SharedAnswer, RequestError>, _ progress: TransferProgress
    ) {
        let answer: SharedAnswer
        switch result {
        case .success(let shared): answer = shared
        case .failure(let error):
            return rider.conclude(AnyOutcome(error: rider.error(from: error)), onlyBeforeStart: true)
        }
        rider.state.withLock { state in
            state.makeFollowUp().carried = answer
            state.progress = progress
        }
        let isSuspended = rider.isSuspended
        let isBoarded = change(rider) { state, ticket -> Bool in
            guard ticket.status == .riding else { return false }
            // It needs no connection any more, and so no slot of its host; the operation queue's limit is Foundation's.
            if isSuspended { ticket.status = .suspended } else { state.room.takeBack(ticket) }
            return !isSuspended
        }
        if isBoarded == true { handOver(rider) }
        if rider.isSuspended != isSuspended { suspensionChanged(of: rider) }
    }
}

extension AnyRequestOperation {
    /// The carrier's failure, as this operation's own.
    fileprivate func error(from error: RequestError) -> RequestError {
        guard error.code == .cancelled else { return error }
        return RequestError(
            .cancelled, "the transfer it shared was cancelled", summary: request?.summary ?? RequestSummary(text: label)
        )
    }
}
