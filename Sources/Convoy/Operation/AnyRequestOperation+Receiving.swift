// What an attempt tells its operation.
import Foundation

extension AnyRequestOperation {
    /// - Thread: the transport's. Takes notes and hands over; never calls user code or a task.
    func attempt(_ number: Int, didReceive head: ResponseHead, for answer: DownloadAnswer?) {
        let now = context.clock.now
        let isWatched = state.withLock { state in
            guard state.machine.accepts(attempt: number) else { return false }
            state.timings.firstByteMoment = CompactInstant(now)
            // It replaces what was there, and may itself be continued.
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

    /// Notes and tells how far the transfer is that it shares with others.
    func carry(_ progress: TransferProgress) {
        var progress = progress
        // Measured for each observer.
        (progress.upload.bytesPerSecond, progress.download.bytesPerSecond) = (nil, nil)
        attempt(nil, didMove: { $0 = progress })
    }

    /// Notes how far an attempt is, and tells it where that is another count; of no attempt, before the start.
    ///
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
            // Where only progress is observed, there is no order among events to keep.
            return (state.progress, state.isWatched ? nil : state.observers?.progress)
        }
        guard let (progress, observers) = told else { return }
        if let observers { observers.tell(progress, of: self) } else { emit(.progress(progress)) }
    }

    /// Notes that the transport holds the task until it is resumed: so much waits to be written or read.
    ///
    /// - Thread: the transport's.
    func attemptIsHeld(_ number: Int) {
        state.withLock { state in
            if state.machine.handle(.taskHeld(attempt: number)).isTaken { state.transfer?.runningChanges &+= 1 }
        }
    }

    /// The body is complete; nil when the attempt is over.
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

    /// The body is where it belongs: decode, conclude.
    ///
    /// - Parameter shared: the answer, where others have it too.
    /// - Thread: the operation's serial executor, unless the request has no user code to run.
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
            // This may be the serial executor of another one.
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

    /// The failure of an answer with an unacceptable status, with what the request decodes its body to.
    ///
    /// - Thread: the operation's serial executor.
    func telling(_ error: RequestError, of ending: AttemptEnding) -> RequestError {
        guard ending.isAnswer, error.code == .unacceptableStatus, error.underlying == nil, let head = ending.head,
            let body = error.body, let decode = ending.attempt.rules.policyBox?.policies.decodesRefusal,
            // Nothing is decoded for one that was cancelled meanwhile.
            state.withLock({ $0.outcome == nil })
        else { return error }
        do {
            let failure = try decode(ReceivedBody(storedData: body, decoder: context.defaults.decoder), head)
            // The server's text, perhaps.
            let words = (failure as? any LocalizedError)?.errorDescription.map { ": \(String($0.prefix(300)).oneLine)" }
            return error.refused(words ?? "", failure)
        } catch let reason {
            return error.refused(", and its body could not be decoded: \(reason.decodingWords)", reason)
        }
    }
}
