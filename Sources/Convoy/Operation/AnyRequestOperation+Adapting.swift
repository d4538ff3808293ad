// Calls interceptors before and after an attempt. Interceptors are user code and may be slow, so the operation has no
// slot while they run.
import Foundation

extension AnyRequestOperation {
    /// Whether interceptors may change the request or decide what follows an attempt.
    var asksInterceptors: Bool {
        isLink ? context.asksInterceptors(policyBox) : mayIntercept
    }

    var policyBox: RequestCore.PolicyBox? { state.withLock { $0.requestPlan?.request.policyBox } }

    func interceptors(_ box: RequestCore.PolicyBox?) -> [any RequestInterceptor] {
        guard let policies = box?.policies else { return context.interceptors }
        return (policies.usesManagerInterceptors ? context.interceptors : []) + policies.interceptors
    }

    /// Whether no interceptor declares the adapted request outdated.
    ///
    /// If false, the interceptors adapt the request again. After ten outdated requests of the operation, the result is
    /// always true, so that the operation sends one.
    func isCurrent(_ request: PreparedRequest, _ interceptors: [any RequestInterceptor]) -> Bool {
        if interceptors.allSatisfy({ $0.isCurrent(request) }) { return true }
        return state.withLock { state in
            let followUp = state.makeFollowUp()
            followUp.outdatedCount += 1
            return followUp.outdatedCount > 10
        }
    }

    func adapt(_ number: Int, _ box: RequestCore.PolicyBox?) {
        intercept(box, number, isUnsent: true, if: { $0.handle(.putOff(attempt: number)).isTaken }) {
            interceptors, attempt, base in
            var request = base
            for interceptor in interceptors {
                request = try await interceptor.adapt(request, for: attempt)
                try Task.checkCancellation()
            }
            if attempt.hasLeftOrigin {
                // The request goes to another origin. So secret fields that an interceptor added are removed.
                request.headerFields.removeAll { field in field.isBoundToOrigin && !base.headerFields.contains(field) }
            }
            try request.check()
            return { [request] in
                self.state.withLock { $0.followUp?.adapted = request }
                self.queueAgain()
            }
        }
    }

    func askInterceptors(after ending: AttemptEnding, then: @escaping @Sendable (InterceptorDecision) -> Void) {
        let (number, box) = (ending.attempt.number, ending.attempt.rules.policyBox)
        let end = AttemptEnd(
            request: ending.request, response: ending.head, error: ending.error,
            isRedirect: redirection(ending) != nil)
        intercept(box, number, isUnsent: false, if: { $0.phase == .deciding(attempt: number) }) {
            interceptors, attempt, _ in
            var decision = InterceptorDecision.proceed
            for interceptor in interceptors where decision == .proceed {
                decision = try await interceptor.decide(after: end, of: attempt)
            }
            return { [decision] in then(decision) }
        }
    }

    /// Runs interceptors in a new task, then, on the serial executor, the closure that `work` returns.
    ///
    /// If `work` throws, the operation fails.
    private func intercept(
        _ box: RequestCore.PolicyBox?, _ number: Int, isUnsent: Bool, if isDue: (inout OperationStateMachine) -> Bool,
        _ work:
            @escaping @Sendable ([any RequestInterceptor], AttemptContext, PreparedRequest) async throws
            -> @Sendable () -> Void
    ) {
        let given: (AttemptContext, PreparedRequest)? = state.withLock { state in
            guard let original = state.prepared, let request = state.nextRequest, isDue(&state.machine) else {
                return nil
            }
            let followUp = state.makeFollowUp()
            (followUp.wait, followUp.adapted) = (.interceptor, nil)
            let attempt = AttemptContext(
                number: number + (box?.policies.earlierAttemptCount ?? 0), originalRequest: original,
                hasLeftOrigin: followUp.hasLeftOrigin || box?.policies.hasLeftOrigin == true,
                isMirror: box?.policies.isMirror == true, earlierAttempts: followUp.records)
            return (attempt, request)
        }
        guard let (attempt, request) = given else { return }
        let interceptors = interceptors(box)
        state.withLock { $0.scheduler }?.yieldSlot(self, isUnsent: isUnsent)
        // The request waits for this task. At the default priority, tasks of higher priority could starve this one.
        let task = Task(priority: .userInitiated) {
            do {
                onExecutor(try await work(interceptors, attempt, request))
            } catch {
                let error =
                    error as? RequestError
                    ?? RequestError(.interceptorFailed, "an interceptor failed: \(error)", underlying: error)
                onExecutor { self.conclude(error) }
            }
        }
        keep(.interceptors) { task.cancel() }
    }
}
