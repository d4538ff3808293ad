// How fast an attempt receives: not faster than its limits, not slower than it has to.
import Foundation

/// What limits the speed of an attempt.
struct RateControl: Sendable {
    /// The limit of all transfers of the manager.
    let shared: RateLimit
    /// That of the request; nil for none.
    let own: RateLimit?
    /// Nil where any speed is good enough.
    let stallDetector: StallDetector?

    /// The pace of an operation's next attempt; its own limit is that of the attempts before.
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

    /// Whether there is any limit: without one nothing is charged, and nothing waits.
    var isActive: Bool { own != nil || stallDetector != nil || !shared.isUnlimited }

    /// Why a transport that cannot be held is not to be used, or nil.
    var defect: RequestError? {
        guard own != nil || shared.bytesPerSecond != nil else { return nil }
        return RequestError(
            .invalidRequest, "nothing was sent: a rate limit needs a transport that can be held; use libcurl")
    }

    fileprivate func leave(_ payer: ObjectIdentifier) {
        shared.leave(payer)
        own?.leave(payer)
    }
}

extension Attempt {
    /// Whether what has been received has yet to be paid for.
    var isThrottled: Bool {
        rateControl.shared.holds(ObjectIdentifier(self)) || rateControl.own?.holds(ObjectIdentifier(self)) == true
    }

    /// What a limit lets come in a little while; no more at a time keeps it.
    var maxChunkBytes: Int { min(rateControl.shared.pieceBytes, rateControl.own?.pieceBytes ?? .max) }

    /// Charges bytes that have come; false when no more should come before they have been paid for.
    ///
    /// - Thread: the transport's.
    func acquire(_ count: Int) -> Bool {
        rateControl.stallDetector?.add(count)
        // Set at run time, a manager's limit finds attempts under way that nothing can hold.
        guard operation.options.pausesInPlace, !isAnswered else { return true }
        let payer = ObjectIdentifier(self)
        let isWithinShared = rateControl.shared.charge(
            count, to: payer, wake: { [weak self] in self?.operation.adjustTask() })
        let isWithinOwn =
            rateControl.own?.charge(count, to: payer, wake: { [weak self] in self?.operation.adjustTask() }) ?? true
        if isWithinShared && isWithinOwn { return true }
        // A thread that has ended the attempt meanwhile did not find it here.
        if !receiving.withLock({ $0.accepts }) { rateControl.leave(payer) }
        return false
    }

    /// Its head has come: from now on it has to be fast enough.
    func watchSpeed() {
        guard let watch = rateControl.stallDetector else { return }
        watch.begin { [weak self] error in self?.end(error, taskHasEnded: false) }
        operation.noteRunning()
    }

    /// It has ended: nothing waits for it, and no timer fires.
    func stopPacing() {
        rateControl.leave(ObjectIdentifier(self))
        rateControl.stallDetector?.stop()
    }
}

extension AnyRequestOperation {
    /// Tells the attempt whether its bytes may move; called after each change.
    ///
    /// Of two changes at a time the later one counts, whichever is told first.
    func noteRunning() {
        let (transfer, isPaused) = state.withLock { ($0.transfer, $0.machine.transfer.isPaused) }
        guard let transfer, let watch = transfer.attempt.rateControl.stallDetector else { return }
        watch.note(isRunning: !isPaused, change: transfer.runningChanges)
    }
}
