// Suspending: by the owner, or because what is received is not read.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// Suspends this operation: a queued one is passed over by its manager, a running one moves no more bytes.
    ///
    /// A running one leaves its slot to others, and after ``resume()`` goes on when it has one again, before those of its
    /// priority that have not begun. (In a queue of yours with a limit of its own it keeps its place there, as Foundation
    /// takes none back.) Where the transport cannot pause a transfer (URLSession on Linux starts it over by itself and lets
    /// its timeout run) the attempt is ended and ``resume()`` begins another: its body starts afresh. So it is with a
    /// download that can be continued, whatever the transport: no connection is kept for it meanwhile, and it goes on where
    /// it was, also after hours.
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

    var suspension: OperationState.Suspension { state.withLock { $0.suspension } }

    private func setSuspended(_ isSuspended: Bool) {
        enum Effect {
            case end(Transfer)
            case launch(Int)
            case adjust
        }
        let now = context.clock.now
        let pausesInPlace =
            context.transport.pausesInPlace && state.withLock { $0.course?.download }?.keepsPart != true
        let (changed, effect, scheduler): (Bool, Effect, (any OperationScheduler)?) = state.withLock { state in
            guard state.isSuspended != isSuspended, state.outcome == nil else { return (false, .adjust, nil) }
            state.isSuspended = isSuspended
            if isSuspended { state.suspensions &+= 1 }
            var effect = Effect.adjust
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
            } else if let attempt = state.takeResting() {
                effect = .launch(attempt)
            }
            return (true, effect, state.scheduler)
        }
        guard changed else { return }
        emit(isSuspended ? .suspended : .resumed)
        scheduler?.suspensionChanged(of: self)
        switch effect {
        case .end(let transfer):
            let control = context.taskControl
            control.async { transfer.task.cancel() }
            // Behind that: its slot is given back when it uses it no more.
            transfer.attempt.close { control.async { self.hasEndedForSuspension() } }
        case .launch(let attempt): launch(attempt)
        case .adjust: adjustTask()
        }
    }

    /// The attempt that a suspension has ended is done with its sink; it may have been resumed meanwhile.
    private func hasEndedForSuspension() {
        let attempt: Int? = state.withLock { state in
            (state.isLaunching, state.isResting) = (false, true)
            return state.takeResting()
        }
        if let attempt { onLane { self.launch(attempt) } } else { leaveSlot() }
    }

    /// Lets others have its slot, if it is suspended and at rest.
    ///
    /// Called wherever it may have come to rest: its task has been paused, has ended, or was not begun.
    func leaveSlot() {
        let scheduler: (any OperationScheduler)? = state.withLock { state in
            guard state.isSuspended, state.machine.currentAttempt != nil, !state.isLaunching,
                state.transfer.map({ !$0.isRunning && !$0.isSettingOff }) ?? true, let scheduler = state.scheduler
            else { return nil }
            state.awaitsSlot = true
            return scheduler
        }
        scheduler?.suspensionChanged(of: self)
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
            let action: (task: any TransferTask, run: Bool)? = self.state.withLock { state in
                let runs = !state.isHeldBack && !isHeld
                guard let transfer = state.transfer, !transfer.isSettingOff, transfer.isRunning != runs else {
                    return nil
                }
                state.transfer?.isRunning = runs
                return (transfer.task, runs)
            }
            if let action {
                self.noteRunning()
                if action.run { action.task.resume() } else { action.task.suspend() }
            }
            self.leaveSlot()
        }
    }
}

extension OperationState {
    /// The attempt to be launched because nothing holds it back any more; nil when none was waiting for that.
    mutating func takeResting() -> Int? {
        guard isResting, !isHeldBack else { return nil }
        isResting = false
        return machine.currentAttempt
    }
}
