// Suspending: by the owner, or because what is received is not read.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// Suspends this operation: a queued one is passed over by its manager, a running one moves no more bytes.
    ///
    /// A running one keeps its slot. Where the transport cannot pause a transfer (URLSession on Linux starts it over
    /// by itself and lets its timeout run) the attempt is ended and ``resume()`` begins another: its body starts afresh.
    /// So it is with a download that can be continued, whatever the transport: no connection is kept for it meanwhile, and
    /// it goes on where it was, also after hours.
    /// Suspending twice, or after the end, has no effect.
    ///
    /// - Thread: any.
    public final func suspend() { setSuspended(true) }

    /// Undoes ``suspend()``.
    ///
    /// Without effect on an operation that is not suspended; it does not start one.
    ///
    /// - Thread: any.
    public final func resume() { setSuspended(false) }

    /// Whether ``suspend()`` was called and ``resume()`` was not.
    public final var isSuspended: Bool { state.withLock { $0.isSuspended } }

    private func setSuspended(_ isSuspended: Bool) {
        enum Effect {
            case end(Transfer)
            case launch(Int)
            case adjust
        }
        let now = context.clock.now
        let (changed, effect, scheduler): (Bool, Effect, Scheduler?) = state.withLock { state in
            guard state.isSuspended != isSuspended, state.outcome == nil else { return (false, .adjust, nil) }
            state.isSuspended = isSuspended
            var effect = Effect.adjust
            let pausesInPlace = context.transport.pausesInPlace && state.course?.download?.keepsPart != true
            if isSuspended, !pausesInPlace, let transfer = state.transfer, state.machine.nextAttempt() != nil {
                let attempt = transfer.attempt
                state.makeCourse().records.append(
                    AttemptRecord(
                        number: attempt.number, request: attempt.request, started: attempt.started, ended: now,
                        next: .suspended, transfer: state.progress))
                state.transfer = nil
                // The next attempt is not launched before this one has written its last.
                state.isLaunching = true
                effect = .end(transfer)
            } else if !isSuspended, state.transfer == nil, let attempt = state.machine.currentAttempt,
                state.prepared != nil
            {
                effect = .launch(attempt)
            }
            return (true, effect, state.scheduler)
        }
        guard changed else { return }
        emit(isSuspended ? .suspended : .resumed)
        scheduler?.suspensionChanged(of: self)
        switch effect {
        case .end(let transfer):
            context.taskControl.async { transfer.task.cancel() }
            transfer.attempt.close { self.hasEndedForSuspension() }
        case .launch(let attempt): launch(attempt)
        case .adjust: adjustTask()
        }
    }

    /// The attempt that a suspension has ended is done with its sink; it may have been resumed meanwhile.
    private func hasEndedForSuspension() {
        let attempt: Int? = state.withLock { state in
            state.isLaunching = false
            return state.isSuspended ? nil : state.machine.currentAttempt
        }
        if let attempt { onLane { self.launch(attempt) } }
    }

    /// How long the rest of the body takes at the average speed of this attempt; nil before its head, without a length,
    /// and before anything has come.
    ///
    /// - Thread: any.
    public final var estimatedTimeLeft: Duration? {
        let now = context.clock.now
        let (progress, began) = state.withLock { ($0.progress, $0.timings.firstByte) }
        guard let began, let expected = progress.expectedBytes else { return nil }
        let (received, left) = (progress.receivedBytes - progress.resumedBytes, expected - progress.receivedBytes)
        guard left > 0 else { return .zero }
        guard received > 0 else { return nil }
        // Nothing that a server announces may overflow: three thousand years will do.
        return .seconds(min((now - began).seconds * Double(left) / Double(received), 1e11))
    }

    /// Brings the task to where it should be: its owner suspended or resumed it, or the reader of its body fell behind or
    /// caught up.
    ///
    /// Two calls cannot be performed in the wrong order: each looks when its turn on the serial queue comes, not when it
    /// was asked for.
    func adjustTask() {
        guard context.transport.pausesInPlace else { return }
        context.taskControl.async {
            let isHeld = self.state.withLock { $0.transfer?.attempt }?.isHeld ?? false
            let action: (task: URLSessionTask, run: Bool)? = self.state.withLock { state in
                let runs = !state.isSuspended && !isHeld
                guard let transfer = state.transfer, !transfer.isSettingOff, transfer.isRunning != runs else {
                    return nil
                }
                state.transfer?.isRunning = runs
                return (transfer.task, runs)
            }
            guard let action else { return }
            self.noteRunning()
            if action.run { action.task.resume() } else { action.task.suspend() }
        }
    }
}
