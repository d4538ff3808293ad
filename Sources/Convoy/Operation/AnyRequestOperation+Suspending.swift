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
    public final func suspend() { setSuspended(true, by: .owner) }

    /// Undoes ``suspend()``.
    ///
    /// Without effect on an operation that is not suspended; it does not start one. A member of a group that is suspended goes
    /// on with its group.
    ///
    /// - Thread: any.
    public final func resume() { setSuspended(false, by: .owner) }

    /// Whether ``suspend()`` was called and ``resume()`` was not, for it or for a group that it is a member of.
    public final var isSuspended: Bool { state.withLock { $0.machine.isSuspended } }

    var suspension: Versioned<OperationStateMachine.Suspension> { state.withLock { $0.machine.suspension } }

    /// Notes a wish; the operation is suspended while there is one.
    final func setSuspended(_ isSuspended: Bool, by suspensionReason: SuspensionReasons) {
        let now = context.clock.now
        let pausesInPlace = options.pausesInPlace && state.withLock { $0.followUp?.download }?.keepsPart != true
        typealias Change = (
            OperationStateMachine.Effects, Transfer?, (any OperationScheduler)?,
            Versioned<OperationStateMachine.Suspension>
        )
        let (effects, ended, scheduler, suspension) = state.withLock { state -> Change in
            if isSuspended {
                state.suspensionReasons.insert(suspensionReason)
            } else {
                state.suspensionReasons.remove(suspensionReason)
            }
            // What another still wishes is not undone.
            guard isSuspended || state.suspensionReasons.isEmpty else {
                return (.dropped, nil, state.scheduler, state.machine.suspension)
            }
            let effects = state.machine.handle(isSuspended ? .suspend(pausesInPlace: pausesInPlace) : .resume)
            let ended = effects.endsAttempt ? state.takeSuspendedTransfer(now) : nil
            return (effects, ended, state.scheduler, state.machine.suspension)
        }
        guard effects.isTaken else { return }
        emit(isSuspended ? .suspended : .resumed)
        scheduler?.suspensionChanged(of: self, to: suspension)
        if let ended {
            let control = context.taskControl
            control.async { ended.task.cancel() }
            // Behind that: its slot is given back when it uses it no more.
            ended.attempt.close { control.async { self.hasEndedForSuspension() } }
        }
        if let attempt = effects.launches { launch(attempt) }
        if effects.adjusts { adjustTask() }
        suspensionChanged()
    }

    /// The attempt that a suspension has ended is done with its sink; it may have been resumed meanwhile.
    private func hasEndedForSuspension() {
        let effects = state.withLock { $0.machine.handle(.attemptClosed) }
        if let attempt = effects.launches { onExecutor { self.launch(attempt) } } else { leaveSlot() }
    }

    /// Lets others have its slot, if it is suspended and at rest.
    ///
    /// Called wherever it may have come to rest: its task has been paused, has ended, or was not begun.
    func leaveSlot() {
        let rest = state.withLock { state in
            state.scheduler.flatMap {
                state.machine.handle(.cameToRest).leavesSlot ? ($0, state.machine.suspension) : nil
            }
        }
        if let (scheduler, suspension) = rest { scheduler.suspensionChanged(of: self, to: suspension) }
    }

    /// How long the rest of the body takes at the average speed of this attempt; nil before its head, without a length,
    /// and before anything has come.
    ///
    /// - Thread: any.
    public final var estimatedTimeLeft: Duration? {
        let now = context.clock.now
        let (progress, began) = state.withLock { ($0.progress, $0.timings.firstByte) }
        guard let began, let expected = progress.download.totalBytes else { return nil }
        let (received, left) = (
            progress.download.completedBytes - progress.resumedBytes, expected - progress.download.completedBytes
        )
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
        guard options.pausesInPlace else { return }
        context.taskControl.async {
            let isHeld = self.state.withLock { $0.transfer?.attempt }?.isHeld ?? false
            let action = self.state.withLock { state -> (task: any TransferTask, runs: Bool)? in
                guard let runs = state.machine.handle(.adjust(isHeld: isHeld)).runsTask else { return nil }
                state.transfer?.runningChanges &+= 1
                return state.transfer.map { ($0.task, runs) }
            }
            if let action {
                self.noteRunning()
                if action.runs { action.task.resume() } else { action.task.suspend() }
            }
            self.leaveSlot()
        }
    }
}

/// Whose wish it is that an operation is suspended.
struct SuspensionReasons: OptionSet, Sendable {
    let rawValue: UInt8

    static let owner = SuspensionReasons(rawValue: 1)
    /// The group that it is a member of.
    static let group = SuspensionReasons(rawValue: 2)
}

extension OperationState {
    /// The transfer that a suspension ends, with a record of its attempt.
    fileprivate mutating func takeSuspendedTransfer(_ now: ContinuousClock.Instant) -> Transfer? {
        guard let ended = transfer else { return nil }
        let attempt = ended.attempt
        makeFollowUp().records.append(
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started, ended: now,
                next: .suspended, transfer: progress))
        transfer = nil
        return ended
    }
}
