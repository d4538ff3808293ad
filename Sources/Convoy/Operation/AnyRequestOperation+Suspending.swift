// Suspending by the owner or the group, and pausing while the received data is not read.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension AnyRequestOperation {
    /// Suspends this operation.
    ///
    /// The manager skips a queued operation. A running operation moves no more bytes.
    ///
    /// A running operation releases its slot. After ``resume()`` it waits for a slot, ahead of operations of the same
    /// priority that have not begun. In your own `OperationQueue` it still counts towards the queue's limit, because
    /// Foundation cannot suspend a started operation.
    ///
    /// If the transport cannot pause a transfer, the attempt ends, and ``resume()`` begins another with a new body.
    /// (URLSession on Linux restarts a paused transfer by itself and lets its timeout run.) A download that can be
    /// resumed also ends its attempt, on every transport. It uses no connection while it is suspended. It resumes from
    /// its partial file even after hours. Suspending twice, or after the operation has finished, has no effect.
    ///
    /// - Thread: any.
    public final func suspend() { setSuspended(true, by: .owner) }

    /// Undoes ``suspend()``.
    ///
    /// This has no effect on an operation that is not suspended, and does not start an operation.
    ///
    /// A member of a suspended group resumes with the group.
    ///
    /// - Thread: any.
    public final func resume() { setSuspended(false, by: .owner) }

    /// Whether ``suspend()`` was called on this operation or on its group, without a later ``resume()``.
    public final var isSuspended: Bool { state.withLock { $0.machine.isSuspended } }

    var suspension: Versioned<OperationStateMachine.Suspension> { state.withLock { $0.machine.suspension } }

    /// Adds or removes a reason; the first reason suspends the operation, and it resumes without the last one.
    final func setSuspended(_ isSuspended: Bool, by suspensionReason: SuspensionReasons) {
        let now = context.clock.now
        let pausesInPlace = self.pausesInPlace && state.withLock { $0.followUp?.download }?.keepsPart != true
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
            // Another reason still suspends the operation.
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
            // The slot is released only after the task was cancelled and the attempt has closed its sink.
            ended.attempt.close { control.async { self.hasEndedForSuspension() } }
        }
        if let attempt = effects.launches { launchWithoutBlocking(attempt) }
        if effects.adjusts { adjustTask() }
        suspensionChanged()
    }

    /// Called when an attempt that a suspension ended has closed its sink; the operation may have been resumed before.
    private func hasEndedForSuspension() {
        let effects = state.withLock { $0.machine.handle(.attemptClosed) }
        if let attempt = effects.launches { onExecutor { self.launch(attempt) } } else { leaveSlot() }
    }

    /// Releases the slot of a suspended operation whose task was paused, has ended, or was not begun.
    func leaveSlot() {
        let rest = state.withLock { state in
            state.scheduler.flatMap {
                state.machine.handle(.cameToRest).leavesSlot ? ($0, state.machine.suspension) : nil
            }
        }
        if let (scheduler, suspension) = rest { scheduler.suspensionChanged(of: self, to: suspension) }
    }

    /// How long the rest of the body takes at the average speed of this attempt.
    ///
    /// Nil before the head of the response or the first byte, and when the length of the body is unknown.
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
        // The time is limited to 1e11 seconds (about 3,200 years), because a server may announce any length.
        return .seconds(min((now - began).seconds * Double(left) / Double(received), 1e11))
    }

    /// Gives a shared transfer the highest priority of the operations that share it, unless a newer one is known.
    func follow(_ priority: Versioned<Operation.QueuePriority>) {
        let (isNew, scheduler) = state.withLock { state -> (Bool, (any OperationScheduler)?) in
            (state.priority.take(priority), state.scheduler)
        }
        guard isNew else { return }
        super.queuePriority = priority.value
        scheduler?.priorityChanged(of: self, to: priority)
    }

    /// Pauses or resumes the task, after a suspension changed or back-pressure began or ended.
    ///
    /// The order of two calls does not matter. Each reads the state when its turn on the serial queue arrives.
    func adjustTask() {
        guard pausesInPlace else { return }
        context.taskControl.async {
            let isPaused = self.state.withLock { $0.transfer?.attempt }?.isPaused ?? false
            let action = self.state.withLock { state -> (task: any TransferTask, runs: Bool)? in
                guard let runs = state.machine.handle(.adjust(isPaused: isPaused)).runsTask else { return nil }
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

struct SuspensionReasons: OptionSet, Sendable {
    let rawValue: UInt8

    static let owner = SuspensionReasons(rawValue: 1)
    /// The group of the operation is suspended.
    static let group = SuspensionReasons(rawValue: 2)
}

extension OperationState {
    fileprivate mutating func takeSuspendedTransfer(_ now: ContinuousClock.Instant) -> Transfer? {
        guard let ended = transfer else { return nil }
        let attempt = ended.attempt
        makeFollowUp().records.append(
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: now,
                next: .suspended, transfer: progress))
        transfer = nil
        return ended
    }
}
