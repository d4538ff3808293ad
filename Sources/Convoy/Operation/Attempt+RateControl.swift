// The speed limits and the minimum speed of an attempt.
import Foundation

extension Attempt {
    private var sharedRateLimit: RateLimit { operation.context.rateLimit }

    /// Whether a speed limit or a minimum speed applies.
    var isRateControlled: Bool { ownRateLimit != nil || stallDetector != nil || !sharedRateLimit.isUnlimited }

    /// The error for a transport that cannot pause, if there is a rate limit; otherwise nil.
    var rateLimitDefect: RequestError? {
        guard ownRateLimit != nil || sharedRateLimit.bytesPerSecond != nil else { return nil }
        return RequestError(
            .invalidRequest, "nothing was sent: a rate limit needs a transport that can pause; use libcurl")
    }

    var isThrottled: Bool {
        sharedRateLimit.holds(ObjectIdentifier(self)) || ownRateLimit?.holds(ObjectIdentifier(self)) == true
    }

    var maxChunkBytes: Int { min(sharedRateLimit.pieceBytes, ownRateLimit?.pieceBytes ?? .max) }

    /// Charges received bytes to the speed limits; false if the transfer must pause until the charge is paid.
    func acquire(_ count: Int) -> Bool {
        stallDetector?.add(count)
        // The caller may set a manager's limit while attempts run that cannot be paused. These attempts are not
        // limited.
        guard operation.pausesInPlace, !isAnswered else { return true }
        let payer = ObjectIdentifier(self)
        let wake: @Sendable () -> Void = { [weak self] in self?.operation.adjustTask() }
        let isWithinShared = sharedRateLimit.charge(count, to: payer, wake: wake)
        let isWithinOwn = ownRateLimit?.charge(count, to: payer, wake: wake) ?? true
        if isWithinShared && isWithinOwn { return true }
        // Another thread may have ended the attempt before this payer was added. So the payer is removed here.
        if !receiving.withLock({ $0.accepts }) { leaveLimits() }
        return false
    }

    private func leaveLimits() {
        sharedRateLimit.leave(ObjectIdentifier(self))
        ownRateLimit?.leave(ObjectIdentifier(self))
    }

    func watchSpeed() {
        guard let watch = stallDetector else { return }
        watch.begin { [weak self] error in self?.end(error, taskHasEnded: false) }
        operation.noteRunning()
    }

    /// Removes an attempt that has ended from the speed limits, and stops its stall detector.
    func stopPacing() {
        leaveLimits()
        stallDetector?.stop()
    }
}

extension AnyRequestOperation {
    /// The request's own speed limit, which all its attempts share, and a new stall detector; nil for none.
    func makeRateControl(_ box: RequestCore.PolicyBox) -> (RateLimit?, StallDetector?) {
        let policies = box.policies
        let detector = policies.minimumSpeed.map { StallDetector($0, clock: context.clock) }
        guard let rate = policies.maxBytesPerSecond, policies.sharedRateLimit == nil else {
            return (policies.sharedRateLimit, detector)
        }
        let fresh = RateLimit(rate, clock: context.clock)
        let own = state.withLock { state in
            let followUp = state.makeFollowUp()
            followUp.rateLimit = followUp.rateLimit ?? fresh
            return followUp.rateLimit
        }
        return (own, detector)
    }

    /// Reports to the stall detector whether the attempt may move bytes; called after each change.
    ///
    /// A change number orders the reports. The stall detector ignores a report that is older than the last one.
    func noteRunning() {
        let (transfer, isPaused) = state.withLock { ($0.transfer, $0.machine.transfer.isPaused) }
        guard let transfer, let watch = transfer.attempt.stallDetector else { return }
        watch.note(isRunning: !isPaused, change: transfer.runningChanges)
    }
}
