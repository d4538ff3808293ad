// Requests that a cache answers: they need no slot.
import Foundation

extension Scheduler {
    /// Has the cache look for an answer to an operation's next attempt; the operation then starts with it, or waits for a slot.
    ///
    /// On the operation's lane: looking may wait for a disk, and many answers one after the other must not nest.
    func consult(
        _ engine: any CacheEngine, _ operation: AnyRequestOperation, _ wish: SchedulerState.Wish,
        otherwise awaitSlot: @escaping @Sendable (SchedulerState.Wish) -> Void
    ) {
        operation.onLane {
            var wish = wish
            wish.followsAnswer = operation.state.withLock { $0.followUp?.cacheExchange?.answers } == true
            let query = self.query(operation, wish)
            let exchange = query.flatMap { engine.begin($0) }
            operation.state.withLock { state in
                if exchange != nil || state.followUp != nil, state.outcome == nil {
                    state.makeFollowUp().cacheExchange = exchange
                }
            }
            guard let query, let exchange, exchange.answers else { return awaitSlot(wish) }
            if exchange.wantsRefresh { self.refresh(query, exchange, for: operation) }
            // One that has begun may leave a slot.
            let effects = self.handingOver(operation) { [wish] in $0.answerFound($1, wish) } ?? nil
            guard let effects else { return awaitSlot(wish) }
            if effects.enters, self.ownQueue?.start(operation) == true { return }
            self.perform(effects, for: operation)
        }
    }

    /// The next attempt as the cache sees it; nil where interceptors have still to see the request.
    private func query(_ operation: AnyRequestOperation, _ wish: SchedulerState.Wish) -> CacheQuery? {
        let given = operation.state.withLock { state -> (PreparedRequest, RequestCore)? in
            guard let core = state.requestPlan?.core, state.outcome == nil,
                let request = state.followUp?.adapted ?? (wish.asksInterceptors ? nil : state.nextRequest)
            else { return nil }
            return (request, core)
        }
        guard let (asked, core) = given else { return nil }
        var request = asked
        if let cookies = context.cookies, !request.headerFields.contains("Cookie") {
            request.headerFields["Cookie"] = cookies.cookieField(for: request.url)
        }
        let keepsCoding = core.destination.isFile && !request.decodesFile || request.asksForIdentity
        return CacheQuery(request, core.policyBox?.policies.cache, keepsCoding: keepsCoding, clock: context.clock)
    }

    /// Validates in the background what has been answered although it is stale (RFC 5861, section 3).
    private func refresh(_ query: CacheQuery, _ exchange: any CacheExchange, for operation: AnyRequestOperation) {
        let given = operation.state.withLock { ($0.requestPlan?.core, $0.followUp?.hasLeftOrigin == true) }
        guard var core = given.0 else { return exchange.refreshEnded() }
        (core.url, core.headerFields) = (query.request.url, query.request.headerFields)
        (core.query, core.tags, core.name, core.priority) = ([], [], nil, .low)
        (core.destination, core.decodesAtOnce) = (.nowhere, true)
        var policies = core.policies
        var options = query.options
        (options.policy, options.maxAge, options.maxStaleness, options.isRefresh) = (.revalidate, nil, nil, true)
        (policies.cache, policies.isCoalesced, policies.exclusion) = (options, false, nil)
        (policies.deadline, policies.inheritedDeadline) = (nil, nil)
        (policies.acceptableStatusCodes, policies.acceptableContentTypes) = (.any, nil)
        (policies.decodesRefusal, policies.sharedRateLimit) = (nil, nil)
        if given.1 { policies.hasLeftOrigin = true }
        core.policies = policies
        let made = RequestOperation<Data>(
            requestPlan: RequestPlan(Request<Data>(core: core) { body, _ in body.data }), context: context, self,
            isUnseen: true)
        let refresh = BackgroundRefresh(made)
        begin(refresh)
        made.whenFinished(
            FinishHandler(place: .lane) { _ in
                self.end(refresh)
                exchange.refreshEnded()
            })
        enqueue(made, as: .shared)
    }
}

/// The validation of a stale answer, beside the request that got it.
private final class BackgroundRefresh: Undertaking {
    private let operation: RequestOperation<Data>

    init(_ operation: RequestOperation<Data>) { self.operation = operation }

    func cancel() { operation.cancel() }
}

extension SchedulerState {
    /// A cache has the answer to a request that is known; nil when the operation has to wait for something first.
    ///
    /// It takes no slot, no host's place and no token.
    mutating func answerFound(_ ticket: Ticket, _ wish: Wish) -> Effects? {
        guard wish.hasBegun == ticket.hasBegun, wish.exclusion == nil, !isSuspended, cancellations == 0,
            ticket.hasBegun || !isQueueSuspended && !ticket.isDependent.value
        else { return nil }
        if ticket.hasBegun { leaveAnswer(ticket, wish) }
        if ticket.hasBegun { yieldSlot(ticket) }
        guard ticket.status == (ticket.hasBegun ? .yielded : .preparing) else { return nil }
        _ = ticket.suspension.take(wish.suspension)
        guard !ticket.suspension.value.isSuspended else { return nil }
        if ticket.hasBegun { leaveInterceptors(ticket) }
        (ticket.host, ticket.status) = (wish.host, .inQueue)
        if ticket.hasBegun { return Effects(resumes: true) }
        let enters = queueKind == .own || ticket.role == .caller
        return Effects(enters: enters, starts: !enters)
    }

    /// The attempt before has been answered by the cache: the next one waits as any other.
    mutating func leaveAnswer(_ ticket: Ticket, _ wish: Wish) {
        if wish.followsAnswer, ticket.status == .inQueue { ticket.status = .yielded }
    }
}
