// Interceptors before and after an attempt. They are user code and take their time: the operation holds no slot meanwhile.
import Foundation

extension AnyRequestOperation {
    /// Whether interceptors may change the request or decide what follows an attempt.
    var asksInterceptors: Bool {
        guard traits.mayIntercept else { return false }
        guard let policies = state.withLock({ $0.requestPlan?.core?.policyBox })?.policies else {
            return !context.interceptors.isEmpty
        }
        return !policies.interceptors.isEmpty || (policies.usesManagerInterceptors && !context.interceptors.isEmpty)
    }

    /// The manager's interceptors, then the request's own.
    func interceptors(of core: RequestCore) -> [any RequestInterceptor] {
        let policies = core.policies
        return (policies.usesManagerInterceptors ? context.interceptors : []) + policies.interceptors
    }

    /// Whether what was adapted may still be sent; one that is outdated again and again is.
    func isCurrent(_ request: PreparedRequest, _ interceptors: [any RequestInterceptor]) -> Bool {
        if interceptors.allSatisfy({ $0.isCurrent(request) }) { return true }
        return state.withLock { state in
            let followUp = state.makeFollowUp()
            followUp.outdatedCount += 1
            return followUp.outdatedCount > 10
        }
    }

    /// Has the interceptors change the request of an attempt, which then waits for a slot again.
    func adapt(_ number: Int, _ core: RequestCore) {
        let given: (PreparedRequest, AttemptContext)? = state.withLock { state in
            guard let original = state.prepared, let request = state.nextRequest,
                state.machine.handle(.putOff(attempt: number)).isTaken
            else { return nil }
            let followUp = state.makeFollowUp()
            (followUp.wait, followUp.adapted) = (.interceptor, nil)
            return (request, state.attemptContext(number, original))
        }
        guard let (base, attempt) = given else { return }
        let interceptors = interceptors(of: core)
        state.withLock { $0.scheduler }?.yieldSlot(self, isIntercepted: true)
        intercept {
            var request = base
            for interceptor in interceptors {
                request = try await interceptor.adapt(request, for: attempt)
                try Task.checkCancellation()
            }
            if attempt.hasLeftOrigin {
                // Credentials stay with their origin, whatever interceptors think they know.
                request.headerFields.removeAll { field in field.isSecret && !base.headerFields.contains(field) }
            }
            try request.check()
            return { [request] in
                self.state.withLock { $0.followUp?.adapted = request }
                self.queueAgain()
            }
        }
    }

    /// Asks the interceptors what an attempt's end means.
    func askInterceptors(
        _ core: RequestCore, after ending: AttemptEnding, of number: Int,
        then: @escaping @Sendable (InterceptorDecision) -> Void
    ) {
        let attempt: AttemptContext? = state.withLock { state in
            guard let original = state.prepared, state.machine.phase == .deciding(attempt: number) else { return nil }
            state.makeFollowUp().wait = .interceptor
            return state.attemptContext(number, original)
        }
        guard let attempt else { return }
        let interceptors = interceptors(of: core)
        let end = AttemptEnd(request: ending.request, response: ending.head, error: ending.error)
        state.withLock { $0.scheduler }?.yieldSlot(self, isIntercepted: true)
        intercept {
            var decision = InterceptorDecision.proceed
            for interceptor in interceptors where decision == .proceed {
                decision = try await interceptor.decide(after: end, of: attempt)
            }
            return { [decision] in then(decision) }
        }
    }

    /// Runs interceptors in a task of their own, and what follows from it on the lane.
    private func intercept(_ work: @escaping @Sendable () async throws -> @Sendable () -> Void) {
        // The request waits for it: among tasks of a higher priority one of the default priority may get no turn.
        let task = Task(priority: .userInitiated) {
            do {
                let next = try await work()
                onLane(next)
            } catch {
                let error =
                    error as? RequestError
                    ?? RequestError(.interceptorFailed, "an interceptor failed: \(error)", underlying: error)
                onLane { self.conclude(AnyOutcome(error: error.with(self.request?.summary))) }
            }
        }
        let isOver = state.withLock { state in
            if state.outcome == nil { state.makeFollowUp().interceptorTask = task }
            return state.outcome != nil
        }
        if isOver { task.cancel() }
    }
}

extension OperationState {
    fileprivate func attemptContext(_ number: Int, _ original: PreparedRequest) -> AttemptContext {
        AttemptContext(
            number: number, originalRequest: original, hasLeftOrigin: followUp?.hasLeftOrigin ?? false,
            earlierAttempts: followUp?.records ?? [])
    }
}
