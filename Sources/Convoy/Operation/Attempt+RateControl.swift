// The speed limits and the minimum speed of an attempt.
import Foundation

/// The limits on the speed of an attempt.
struct RateControl: Sendable {
    /// The limit of all transfers of the manager.
    let shared: RateLimit
    /// The limit of the request; nil for none.
    let own: RateLimit?
    /// Nil if any speed is acceptable.
    let stallDetector: StallDetector?

    /// The rate control of an operation's next attempt.
    ///
    /// All attempts share the request's own limit.
    init(_ operation: AnyRequestOperation, _ box: RequestCore.PolicyBox?) {
        let context = operation.context
        shared = context.rateLimit
        guard let policies = box?.policies else {
            (own, stallDetector) = (nil, nil)
            return
        }
        stallDetector = policies.minimumSpeed.map { StallDetector($0, clock: context.clock) }
        guard let rate = policies.maxBytesPerSecond, policies.sharedRateLimit == nil else {
            own = policies.sharedRateLimit
            return
        }
        let fresh = RateLimit(rate, clock: context.clock)
        own = operation.state.withLock { state in
            let followUp = state.makeFollowUp()
            let limit = followUp.rateLimit ?? fresh
            followUp.rateLimit = limit
            return limit
        }
    }

    /// Whether a speed limit or a minimum speed applies.
    ///
    /// If neither applies, no bytes are counted and no transfer waits.
    var isActive: Bool { own != nil || stallDetector != nil || !shared.isUnlimited }

    /// The error for a transport that cannot pause, if there is a rate limit; otherwise nil.
    var defect: RequestError? {
        guard own != nil || shared.bytesPerSecond != nil else { return nil }
        return RequestError(
            .invalidRequest, "nothing was sent: a rate limit needs a transport that can pause; use libcurl")
    }

    fileprivate func leave(_ payer: ObjectIdentifier) {
        shared.leave(payer)
        own?.leave(payer)
    }
}

extension Attempt {
    /// Whether a limit still delays further bytes, because received bytes exceed it.
    var isThrottled: Bool {
        rateControl.shared.holds(ObjectIdentifier(self)) || rateControl.own?.holds(ObjectIdentifier(self)) == true
    }

    /// The largest chunk that stays within the limits.
    var maxChunkBytes: Int { min(rateControl.shared.pieceBytes, rateControl.own?.pieceBytes ?? .max) }

    /// Charges received bytes to the limits.
    ///
    /// False if no more should be received for now.
    ///
    /// - Thread: the transport's.
    func acquire(_ count: Int) -> Bool {
        rateControl.stallDetector?.add(count)
        // If a manager's limit is set at run time, attempts that cannot be paused may be running.
        guard operation.pausesInPlace, !isAnswered else { return true }
        let payer = ObjectIdentifier(self)
        let isWithinShared = rateControl.shared.charge(
            count, to: payer, wake: { [weak self] in self?.operation.adjustTask() })
        let isWithinOwn =
            rateControl.own?.charge(count, to: payer, wake: { [weak self] in self?.operation.adjustTask() }) ?? true
        if isWithinShared && isWithinOwn { return true }
        // Another thread may have ended the attempt before this payer was added. So the payer is removed here.
        if !receiving.withLock({ $0.accepts }) { rateControl.leave(payer) }
        return false
    }

    /// Starts the minimum-speed check once the head has arrived.
    func watchSpeed() {
        guard let watch = rateControl.stallDetector else { return }
        watch.begin { [weak self] error in self?.end(error, taskHasEnded: false) }
        operation.noteRunning()
    }

    /// Releases the limits and stops the timer of an attempt that has ended.
    func stopPacing() {
        rateControl.leave(ObjectIdentifier(self))
        rateControl.stallDetector?.stop()
    }
}

extension AnyRequestOperation {
    /// Reports to the stall detector whether the attempt may move bytes; called after each change.
    ///
    /// A change number orders the reports. The stall detector ignores a report that is older than the last one.
    func noteRunning() {
        let (transfer, isPaused) = state.withLock { ($0.transfer, $0.machine.transfer.isPaused) }
        guard let transfer, let watch = transfer.attempt.rateControl.stallDetector else { return }
        watch.note(isRunning: !isPaused, change: transfer.runningChanges)
    }
}
