// Events that an attempt sends to its operation.
import Foundation

extension AnyRequestOperation {
    /// Records and reports the progress of a transfer that several operations share.
    func carry(_ progress: TransferProgress) {
        var progress = progress
        // Each observer measures the speed itself.
        (progress.upload.bytesPerSecond, progress.download.bytesPerSecond) = (nil, nil)
        attempt(nil, didMove: { $0 = progress })
    }

    /// Records the progress of an attempt, and notifies observers if it changed.
    func attempt(_ number: Int?, didMove change: (inout TransferProgress) -> Void) {
        let told: (TransferProgress, ProgressObservers?)? = state.withLock { state in
            let machine = state.machine
            guard machine.currentAttempt == number, number != nil || machine.phase == .pending else { return nil }
            guard state.isWatched || state.registry != nil else {
                change(&state.progress)
                return nil
            }
            let before = state.progress
            change(&state.progress)
            guard state.progress != before else { return nil }
            // If only progress is observed, its order relative to other events does not matter. Its observers are then
            // called directly.
            return (state.progress, state.isWatched ? nil : state.observers?.progress)
        }
        guard let (progress, observers) = told else { return }
        if let observers { observers.tell(progress, of: self) } else { emit(.progress(progress)) }
    }

    /// Records that the transport has paused the task, because of a rate limit or back-pressure.
    func attemptIsPaused(_ number: Int) {
        state.withLock { state in
            if state.machine.handle(.taskPaused(attempt: number)).isTaken { state.transfer?.runningChanges &+= 1 }
        }
    }

    /// Records that the body is complete; nil if the attempt is no longer the current one.
    func attempt(
        _ number: Int, hasWholeBodyOf head: ResponseHead, to request: PreparedRequest,
        _ metrics: CopyOnWrite<TransferMetrics>?,
        commits: Bool = false, isSent: Bool = true
    ) -> OperationState.Completion? {
        let now = CompactInstant(context.clock.now)
        return state.withLock { state in
            guard let requestPlan = state.requestPlan,
                state.machine.handle(.bodyComplete(attempt: number, commits: commits)).isTaken
            else { return nil }
            state.timings.finishedMoment = now
            if !isSent { state.timings.attemptStartedMoment = nil }
            let exchange = Exchange(
                request: request, head: head, timings: state.timings, transfer: state.progress, metrics: metrics,
                earlierAttempts: state.followUp?.earlierAttempts ?? [])
            return OperationState.Completion(
                attempt: number, requestPlan: requestPlan, exchange: exchange, moment: now,
                isObserved: state.isObserved, hasEdges: state.hasEdges)
        }
    }

    /// Decodes the complete body and finishes the operation, on this thread or on the serial executor.
    ///
    /// - Parameter decodesAtOnce: whether decoding is fast and calls no user code. The thread may be a transport's.
    func complete(
        _ completion: OperationState.Completion, with body: ReceivedBody, for shared: SharedAnswer? = nil,
        decodesAtOnce: Bool = false
    ) {
        #if canImport(FoundationNetworking)
            let isObserved = completion.isObserved
        #else
            let isObserved = isObservedSynchronously
        #endif
        // If two or more dependents or an observed one must be notified, the serial executor does it.
        let dependents = completion.hasEdges ? DependencyGraph.dependents(of: self, atMost: 2) : []
        if decodesAtOnce, !isObserved, dependents.count < 2, dependents.allSatisfy({ !$0.isObservedSynchronously }) {
            return conclude(
                outcome(of: body, completion), attempt: completion.attempt, taskHasEnded: true, isDelivered: true,
                at: completion.moment)
        }
        onExecutor {
            guard let shared, let sharing = completion.requestPlan.sharing else {
                return self.conclude(
                    self.outcome(of: body, completion), attempt: completion.attempt, taskHasEnded: true,
                    isDelivered: true)
            }
            shared.decode(sharing, by: { self.outcome(of: body, completion) }) { outcome in
                // The current thread may run another operation's serial executor. So this operation's own executor
                // concludes.
                self.onExecutor {
                    let outcome = sharing.adopt(outcome, completion.exchange)
                    self.conclude(outcome, attempt: completion.attempt, taskHasEnded: true)
                }
            }
        }
    }

    private func outcome(of body: ReceivedBody, _ completion: OperationState.Completion) -> AnyOutcome {
        let exchange = completion.exchange
        var body = body
        body.decoder = context.defaults.decoder
        do {
            let outcome = try completion.requestPlan.respond(body, exchange)
            guard context.keptBodyBytes > 0, let data = body.storedData, data.count <= context.keptBodyBytes else {
                return outcome
            }
            return outcome.keeping(data)
        } catch let error as RequestError {
            return AnyOutcome(error: error.with(request?.summary, response: exchange.head))
        } catch {
            return AnyOutcome(
                error: RequestError(
                    .decodingFailed,
                    "the body of \(body.data.count) bytes could not be decoded: \(error.decodingWords)",
                    summary: exchange.request.summary, response: exchange.head, body: body.data, underlying: error))
        }
    }

    /// Adds the decoded error body to the error for an unacceptable status.
    func telling(_ error: RequestError, of ending: AttemptEnding) -> RequestError {
        guard ending.isAnswer, error.code == .unacceptableStatus, error.underlying == nil, let head = ending.head,
            let body = error.body, let decode = ending.attempt.rules.policyBox?.policies.decodesRefusal,
            // After an outcome, such as a cancellation, nothing is decoded.
            state.withLock({ $0.outcome == nil })
        else { return error }
        do {
            let failure = try decode(ReceivedBody(storedData: body, decoder: context.defaults.decoder), head)
            // The server may have chosen this text, so its length is limited.
            let words = (failure as? any LocalizedError)?.errorDescription.map { ": \(String($0.prefix(300)).oneLine)" }
            return error.refused(words ?? "", failure)
        } catch let reason {
            return error.refused(", and its body could not be decoded: \(reason.decodingWords)", reason)
        }
    }
}
