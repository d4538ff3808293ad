// What an attempt tells its operation.
import Foundation

extension AnyRequestOperation {
    /// - Thread: the transport's. Takes notes and hands over; never calls user code or a task.
    func attempt(_ number: Int, didReceive head: ResponseHead, for answer: DownloadAnswer?) {
        let now = context.clock.now
        let isWatched = state.withLock { state in
            guard state.machine.accepts(attempt: number) else { return false }
            state.timings.firstByte = now
            // It replaces what was there, and may itself be continued.
            if head.statusCode == 200, case .body(0, _)? = answer { state.followUp?.startsOver = false }
            state.progress.begin(head, answer)
            return state.isWatched
        }
        if isWatched { emit(.response(head)) }
    }

    /// - Thread: the transport's.
    func attempt(_ number: Int, didReceiveBytes count: Int64) {
        moved(number) { $0.receivedBytes += count }
    }

    /// Notes that the transport holds the task until it is resumed: so much waits to be written or read.
    ///
    /// - Thread: the transport's.
    func attemptIsHeld(_ number: Int) {
        state.withLock { state in
            if state.machine.handle(.taskHeld(attempt: number)).isTaken { state.transfer?.runningChanges &+= 1 }
        }
    }

    /// - Thread: the transport's.
    func attempt(_ number: Int, didSendTotal total: Int64) {
        moved(number) { $0.sentBytes = total }
    }

    private func moved(_ number: Int, _ change: (inout TransferProgress) -> Void) {
        moved(if: { $0.accepts(attempt: number) }, change)
    }

    /// Notes and tells how far the transfer is that it shares with others.
    func carry(_ progress: TransferProgress) {
        moved(if: { $0.phase == .pending }) { $0 = progress }
    }

    private func moved(if isCurrent: (OperationStateMachine) -> Bool, _ change: (inout TransferProgress) -> Void) {
        let isMonitored = !context.monitors.isEmpty
        let told: (TransferProgress, observers: [ObserverRegistry.ProgressObserver]?)? = state.withLock { state in
            guard isCurrent(state.machine) else { return nil }
            change(&state.progress)
            guard state.watch != nil || isMonitored else { return nil }
            // Where only progress is watched, there is no order among events to keep.
            let observers = isMonitored || state.watch?.events != nil ? nil : state.watch?.progressObservers
            return (state.progress, observers)
        }
        guard let told else { return }
        guard let observers = told.observers else { return emit(.progress(told.0)) }
        for observer in observers { observer.tell(told.0) }
    }

    /// The body is complete; nil when the attempt is over.
    ///
    /// - Parameter isSent: whether the request was sent at all.
    /// - Thread: the transport's.
    func attempt(
        _ number: Int, hasWholeBodyCommitting commits: Bool, isSent: Bool = true
    ) -> OperationState.Completion? {
        let now = context.clock.now
        return state.withLock { state in
            guard let requestPlan = state.requestPlan,
                state.machine.handle(.bodyComplete(attempt: number, commits: commits)).isTaken
            else { return nil }
            state.timings.finished = now
            if !isSent { state.timings.attemptStarted = nil }
            return OperationState.Completion(
                requestPlan: requestPlan, timings: state.timings, progress: state.progress,
                earlierAttempts: state.followUp?.earlierAttempts ?? [], isObserved: state.isObserved,
                hasEdges: state.hasEdges)
        }
    }

    /// The body is where it belongs: decode, conclude.
    ///
    /// - Parameter shared: the answer, where others have it too.
    /// - Thread: the operation's lane, unless the request has no user code to run.
    func attempt(
        _ number: Int, didComplete answer: CompleteAnswer, _ completion: OperationState.Completion,
        for shared: SharedAnswer? = nil
    ) {
        let requestPlan = completion.requestPlan
        let transfer = FinishedTransfer(
            request: answer.request, head: answer.head, timings: completion.timings, progress: completion.progress,
            metrics: answer.metrics, earlierAttempts: completion.earlierAttempts)
        guard let shared, let sharing = requestPlan.sharing else {
            return conclude(
                outcome(of: answer.body, transfer, requestPlan), attempt: number, taskHasEnded: true, isDelivered: true)
        }
        shared.decode(sharing, by: { outcome(of: answer.body, transfer, requestPlan) }) { outcome in
            // This may be the lane of another one.
            self.onLane { self.conclude(sharing.adopt(outcome, transfer), attempt: number, taskHasEnded: true) }
        }
    }

    private func outcome(of body: ReceivedBody, _ transfer: FinishedTransfer, _ requestPlan: RequestPlan) -> AnyOutcome
    {
        let head = transfer.head
        do {
            return try requestPlan.respond(body, transfer)
        } catch let error as RequestError {
            return AnyOutcome(error: error.with(request?.summary, response: head))
        } catch {
            return AnyOutcome(
                error: RequestError(
                    .decodingFailed,
                    "the body of \(body.data.count) bytes could not be decoded: \(error.decodingWords)",
                    summary: transfer.request.summary, response: head, body: body.data, underlying: error))
        }
    }

    /// An answer with an unacceptable status is the outcome, and its body has what the request decodes such a one to; where
    /// that cannot be done, the status is the failure.
    ///
    /// - Thread: the operation's lane.
    func outcome(ofRefused ending: AttemptEnding, _ error: RequestError) -> AnyOutcome {
        guard ending.isAnswer, error.code == .unacceptableStatus, error.underlying == nil, let head = ending.head,
            let body = error.body
        else { return AnyOutcome(error: error) }
        let given: (RequestPlan, FinishedTransfer)? = state.withLock { state in
            guard let requestPlan = state.requestPlan, state.outcome == nil else { return nil }
            var timings = state.timings
            timings.finished = ending.ended
            let transfer = FinishedTransfer(
                request: ending.request, head: head, timings: timings, progress: state.progress,
                metrics: ending.metrics, earlierAttempts: state.followUp?.earlierAttempts ?? [])
            return (requestPlan, transfer)
        }
        guard let (requestPlan, transfer) = given else { return AnyOutcome(error: error) }
        do {
            return try requestPlan.respond(ReceivedBody(storedData: body, isRefused: true), transfer)
        } catch let reason {
            return AnyOutcome(
                error: RequestError(
                    error.code, "\(error.message), and its body could not be decoded: \(reason.decodingWords)",
                    summary: transfer.request.summary, response: head, body: body, underlying: reason,
                    isRetryable: error.isRetryable))
        }
    }
}
