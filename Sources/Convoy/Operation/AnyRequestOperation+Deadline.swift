// The deadline of a whole operation: queueing, attempts and waits included.
import Foundation

extension AnyRequestOperation {
    /// Starts the time of a request that has a deadline; once.
    ///
    /// Called when a manager takes the operation and when it is started, of which the first counts; for a link when its
    /// request has been built.
    func armDeadline() {
        if !options.isLink { armDeadline(of: policyBox?.policies) }
    }

    /// - Parameter policies: those of the request; nil for one that leaves all to its manager.
    func armDeadline(of policies: RequestPolicies?) {
        // A sum that overflows would trap: thirty years are for ever.
        // One that is not positive is a defect, and told as that.
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
            // Not behind user code of its own that may take its time.
            context.taskControl.async { self.deadlineHasPassed() }
        }
        timer.noteDeadline()
        keep(.deadline) { timer.cancel() }
    }

    /// The moment at which everything has to be over; nil for as long as it takes.
    var deadline: ContinuousClock.Instant? {
        options.mayHaveDeadline ? state.withLock { $0.followUp?.deadline } : nil
    }

    private func deadlineHasPassed() {
        state.withLock { $0.transfer?.attempt }?.learnThatNothingCame()
        let why = state.withLock { $0.scheduler }?.why(self) ?? whyWithoutManager
        conclude(.deadlineExceeded, "its deadline has passed: it \(why)\(spentTime)")
    }

    /// How the time was spent, for people.
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
