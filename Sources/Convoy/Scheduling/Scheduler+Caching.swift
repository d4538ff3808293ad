// Requests that a cache can satisfy need no slot.
import Foundation

extension Scheduler {
    /// Looks in the cache before an operation's next attempt.
    ///
    /// The operation then starts with a stored response or waits for a slot. If it waits, it looks in the cache again
    /// when it has a slot.
    func consult(_ engine: any CacheEngine, _ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        guard let query = nextQuery(operation, wish),
            engine.recall(query).map({ $0.answers || !$0.isCertain }) != false
        else {
            return queue(operation, wish, answeredBy: nil)
        }
        engine.look(query) { exchange in
            let answer = exchange?.answers == true ? exchange : nil
            // A lookup in memory that found nothing continues on this thread.
            if !engine.mayBlock, answer == nil { return self.queue(operation, wish, answeredBy: nil) }
            // The rest runs on the serial executor, because nested calls for many stored responses would overflow the
            // stack.
            operation.onExecutor {
                if let answer, answer.wantsRefresh { self.refresh(query, answer, for: operation) }
                self.queue(operation, wish, answeredBy: answer)
            }
        }
    }

    /// Stores the exchange whose response the next attempt delivers; without one, removes an earlier exchange.
    private func queue(
        _ operation: AnyRequestOperation, _ wish: OperationState.Wish, answeredBy answer: (any CacheExchange)?
    ) {
        operation.state.withLock { state in
            let isKept = answer != nil && state.outcome == nil
            if isKept || state.followUp != nil { state.makeFollowUp().cacheExchange = isKept ? answer : nil }
        }
        var wish = wish
        wish.hasAnswer = answer != nil
        queue(operation, wish)
    }

    func lookUp(
        _ request: PreparedRequest, for operation: AnyRequestOperation,
        _ then: @escaping @Sendable ((any CacheExchange)?) -> Void
    ) {
        guard let engine = context.cache, let core = operation.state.withLock({ $0.requestPlan?.core }) else {
            return then(nil)
        }
        let query = query(request, core)
        @Sendable func lookAgain() { engine.look(query) { self.goOn($0, query, for: operation, then) } }
        @Sendable func shares(_ exchange: (any CacheExchange)?) -> Bool {
            self.shares(exchange, orSends: { self.goOn(exchange, query, for: operation, then) }, lookAgain)
        }
        if let known = engine.recall(query), !known.answers {
            if shares(known) { return }
            if known.isCertain { return then(known) }
        }
        engine.look(query) { exchange in
            if shares(exchange) { return }
            guard engine.mayBlock || exchange?.answers == true else { return then(exchange) }
            self.goOn(exchange, query, for: operation, then)
        }
    }

    /// Continues an operation after a lookup, on its serial executor.
    private func goOn(
        _ exchange: (any CacheExchange)?, _ query: CacheQuery, for operation: AnyRequestOperation,
        _ then: @escaping @Sendable ((any CacheExchange)?) -> Void
    ) {
        operation.onExecutor {
            if let exchange, exchange.wantsRefresh { self.refresh(query, exchange, for: operation) }
            then(exchange)
        }
    }

    /// The maximum wait for the response to an equal request.
    private static let mostWait = Duration.seconds(5)

    /// Makes a request wait for the response to an equal request in progress; false if the request does not wait.
    ///
    /// The request keeps its slot while it waits. The wait ends when the response is stored or cannot be shared, or
    /// after ``mostWait``. It also ends when the equal request fails, is cancelled or is suspended, and this request
    /// takes its place.
    private func shares(
        _ exchange: (any CacheExchange)?, orSends send: @escaping @Sendable () -> Void,
        _ lookAgain: @escaping @Sendable () -> Void
    ) -> Bool {
        guard let exchange, !exchange.answers else { return false }
        var timer: ClockTimer?
        let isShared = exchange.awaitEqual {
            let takesOver = Locked(false)
            // A `ClockTimer` runs its action once, whichever end of the wait comes first.
            let end = ClockTimer { if takesOver.withLock({ $0 }) { send() } else { lookAgain() } }
            timer = end
            return { isNext in
                takesOver.withLock { $0 = isNext }
                end.fire()
            }
        }
        guard isShared, let timer else { return false }
        _ = context.clock.wake(at: context.clock.now + Self.mostWait) { timer.fire() }
        return true
    }

    /// The next attempt as a cache query; nil if the cache must not be used or interceptors have yet to adapt the
    /// request.
    private func nextQuery(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) -> CacheQuery? {
        let given = operation.state.withLock { state -> (PreparedRequest, RequestCore)? in
            guard let core = state.requestPlan?.core, state.outcome == nil,
                state.followUp?.lostStoredAnswer != true,
                let request = state.followUp?.adapted ?? (wish.asksInterceptors ? nil : state.nextRequest)
            else { return nil }
            return (request, core)
        }
        guard let (asked, core) = given else { return nil }
        var request = asked
        context.cookies?.add(to: &request)
        return query(request, core)
    }

    private func query(_ request: PreparedRequest, _ core: RequestCore) -> CacheQuery {
        let keepsCoding = core.destination.isFile && request.keepsCoding || request.asksForIdentity
        return CacheQuery(request, core.policyBox?.policies.cache, keepsCoding: keepsCoding, clock: context.clock)
    }

    /// Validates a stale response in the background, while an operation uses it (RFC 5861, section 3).
    private func refresh(_ query: CacheQuery, _ exchange: any CacheExchange, for operation: AnyRequestOperation) {
        let given = operation.state.withLock { ($0.requestPlan?.core, $0.followUp?.hasLeftOrigin == true) }
        guard var core = given.0 else { return exchange.refreshEnded() }
        let request = exchange.refreshRequest
        (core.url, core.headerFields) = (request.url, request.headerFields)
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
        let made = RequestOperation(Request<Data>(core: core) { body, _ in body.data }, of: self, isInternal: true)
        begin(made)
        made.whenFinished(
            FinishHandler(place: .executor) { [unowned made] _ in
                self.end(made)
                exchange.refreshEnded()
            })
        enqueue(made, as: .shared)
    }
}

/// A background refresh is a producer, because ``Scheduler/cancelAll()`` cancels only listed operations and producers.
extension AnyRequestOperation: Producer {}
