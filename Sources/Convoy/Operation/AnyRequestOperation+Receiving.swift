// Events that an attempt sends to its operation.
import Foundation

extension AnyRequestOperation {
    /// - Thread: the transport's. This method records the head and dispatches the event. It calls neither user code nor
    ///   a task.
    func attempt(_ number: Int, didReceive head: ResponseHead, for answer: DownloadAnswer?) {
        let now = context.clock.now
        let isWatched = state.withLock { state in
            guard state.machine.accepts(attempt: number) else { return false }
            state.timings.firstByteMoment = CompactInstant(now)
            // A complete response replaces the old partial file. A later attempt may resume the new one.
            if head.statusCode == 200, case .body(0, _)? = answer { state.followUp?.startsOver = false }
            if let answer {
                state.progress.begin(head, answer)
            } else {
                (state.progress.download, state.progress.resumedBytes) = (
                    ByteProgress(totalBytes: head.expectedBytes), 0
                )
            }
            return state.isWatched
        }
        if isWatched { emit(.response(head)) }
    }

    /// Records and reports the progress of a transfer that several operations share.
    func carry(_ progress: TransferProgress) {
        var progress = progress
        // Each observer measures the speed itself.
        (progress.upload.bytesPerSecond, progress.download.bytesPerSecond) = (nil, nil)
        attempt(nil, didMove: { $0 = progress })
    }

    /// Records the progress of an attempt, and notifies observers if it changed.
    ///
    /// - Parameter number: the attempt; nil before the start, when none exists.
    /// - Thread: the transport's.
    func attempt(_ number: Int?, didMove change: (inout TransferProgress) -> Void) {
        let told: (TransferProgress, ProgressObservers?)? = state.withLock { state in
            let machine = state.machine
            guard machine.currentAttempt == number, number != nil || machine.phase == .pending else { return nil }
            guard state.isWatched || state.observers != nil else {
                change(&state.progress)
                return nil
            }
            let before = state.progress
            change(&state.progress)
            guard state.progress != before else { return nil }
            // If only progress is observed, its order relative to other events does not matter.
            return (state.progress, state.isWatched ? nil : state.observers?.progress)
        }
        guard let (progress, observers) = told else { return }
        if let observers { observers.tell(progress, of: self) } else { emit(.progress(progress)) }
    }

    /// Records that the transport has paused the task until the operation resumes it.
    ///
    /// The cause is a rate limit, or back-pressure: too much data waits to be written or read.
    ///
    /// - Thread: the transport's.
    func attemptIsPaused(_ number: Int) {
        state.withLock { state in
            if state.machine.handle(.taskPaused(attempt: number)).isTaken { state.transfer?.runningChanges &+= 1 }
        }
    }

    /// Records that the body is complete.
    ///
    /// Nil if the attempt is over.
    ///
    /// - Parameter isSent: whether the request was sent at all.
    /// - Thread: the transport's.
    func attempt(
        _ number: Int, hasWholeBodyOf head: ResponseHead, to request: PreparedRequest,
        _ metrics: CopyOnWrite<TransferMetrics>?,
        commits: Bool = false, isSent: Bool = true
    ) -> OperationState.Completion? {
        let now = context.clock.now
        return state.withLock { state in
            guard let requestPlan = state.requestPlan,
                state.machine.handle(.bodyComplete(attempt: number, commits: commits)).isTaken
            else { return nil }
            state.timings.finishedMoment = CompactInstant(now)
            if !isSent { state.timings.attemptStartedMoment = nil }
            return OperationState.Completion(
                attempt: number, requestPlan: requestPlan, exchange: state.exchange(request, head, metrics),
                isObserved: state.isObserved, hasEdges: state.hasEdges)
        }
    }

    /// Decodes the complete body and finishes the operation.
    ///
    /// - Parameter shared: the response, if several operations share it.
    /// - Thread: the operation's serial executor, or any if the request has no user code to run.
    func complete(
        _ completion: OperationState.Completion, with body: ReceivedBody, for shared: SharedAnswer? = nil
    ) {
        let (requestPlan, exchange) = (completion.requestPlan, completion.exchange)
        guard let shared, let sharing = requestPlan.sharing else {
            return conclude(
                outcome(of: body, exchange, requestPlan), attempt: completion.attempt, taskHasEnded: true,
                isDelivered: true)
        }
        shared.decode(sharing, by: { outcome(of: body, exchange, requestPlan) }) { outcome in
            // The current thread may be running the serial executor of another operation.
            self.onExecutor {
                self.conclude(sharing.adopt(outcome, exchange), attempt: completion.attempt, taskHasEnded: true)
            }
        }
    }

    private func outcome(of body: ReceivedBody, _ exchange: Exchange, _ requestPlan: RequestPlan) -> AnyOutcome {
        var body = body
        body.decoder = context.defaults.decoder
        do {
            let outcome = try requestPlan.respond(body, exchange)
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
    ///
    /// - Thread: the operation's serial executor.
    func telling(_ error: RequestError, of ending: AttemptEnding) -> RequestError {
        guard ending.isAnswer, error.code == .unacceptableStatus, error.underlying == nil, let head = ending.head,
            let body = error.body, let decode = ending.attempt.rules.policyBox?.policies.decodesRefusal,
            // After a cancellation nothing is decoded.
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
