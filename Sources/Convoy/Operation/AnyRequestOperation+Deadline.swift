// The deadline of an operation. It covers queueing, attempts and waits.
import Foundation

extension AnyRequestOperation {
    /// Starts the timer of the deadline, if the request has a deadline.
    ///
    /// A manager calls this method when the operation is enqueued or started, and the first attempt calls it too. Only
    /// the first call has an effect. The deadline of a chain's link starts when its request has been built.
    func armDeadline() {
        if !isLink { armDeadline(of: policyBox?.policies) }
    }

    func armDeadline(of policies: RequestPolicies?) {
        // The deadline is limited to 1,000,000,000 seconds, because an overflowing sum would trap. The check of the
        // request reports a deadline that is not positive.
        let own = (policies?.deadline ?? context.defaults.deadline).flatMap {
            $0 > .zero ? context.clock.now + min($0, .seconds(1_000_000_000)) : nil
        }
        guard let deadline = [own, policies?.inheritedDeadline].compactMap({ $0 }).min() else { return }
        let isFirst = state.withLock { state in
            guard state.outcome == nil, state.followUp?.deadline == nil else { return false }
            state.makeFollowUp().deadline = deadline
            return true
        }
        guard isFirst else { return }
        let timer = context.clock.wake(at: deadline) { [weak self] in
            guard let self else { return }
            // The operation's own executor may be busy with slow user code, so the deadline uses another queue.
            context.taskControl.async { self.deadlineHasPassed() }
        }
        timer.noteDeadline()
        keep(.deadline) { timer.cancel() }
    }

    var deadline: ContinuousClock.Instant? {
        mayHaveDeadline ? state.withLock { $0.followUp?.deadline } : nil
    }

    private func deadlineHasPassed() {
        state.withLock { $0.transfer?.attempt }?.learnThatNothingCame()
        let why = state.withLock { $0.scheduler }?.why(self) ?? whyWithoutManager
        conclude(.deadlineExceeded, "its deadline has passed: it \(why)\(spentTime)")
    }

    private var spentTime: String {
        let (timings, records, isInAttempt) = state.withLock {
            ($0.timings, $0.followUp?.records ?? [], $0.machine.currentAttempt != nil)
        }
        let now = context.clock.now
        var parts: [String] = []
        if let queued = timings.queued { parts.append("\(queued.duration(to: timings.started ?? now).words) queued") }
        if records.isEmpty, let started = timings.started {
            parts.append("\(started.duration(to: now).words) executing")
        }
        if let first = records.first, let last = records.last {
            let inAttempts = records.reduce(Duration.zero) { $0 + $1.started.duration(to: $1.ended) }
            let next = timings.attemptStarted.map { $0 >= last.ended ? $0 : now } ?? now
            let between = first.started.duration(to: next) - inAttempts
            parts.append("\(inAttempts.words) in \(records.count) attempts before")
            parts.append("\(between.words) between attempts")
            if isInAttempt, next < now { parts.append("\(next.duration(to: now).words) in this one") }
        }
        return parts.isEmpty ? "" : " (spent: \(parts.joined(separator: ", ")))"
    }
}
