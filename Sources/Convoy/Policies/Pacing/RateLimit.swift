// A limit of bytes per second for several transfers.
import Synchronization

// A token bucket for several transfers.
//
// A charge for received bytes is paid when enough time has passed for its bytes at the rate. A transfer that has
// received too much pauses until its charges are paid, in order of arrival, so that waiting transfers get equal shares.
// The callbacks of waiting transfers run without a lock.
final class RateLimit: Sendable {
    private struct Turn: Comparable {
        let position: Int64
        let payer: ObjectIdentifier

        static func < (left: Turn, right: Turn) -> Bool { left.position < right.position }
    }

    private struct Waiting {
        /// The position of the waiter's last charge, as ``TokenBucket/charge(_:now:)`` returned it.
        let position: Int64
        let wake: @Sendable () -> Void
    }

    private struct State {
        var bucket: TokenBucket?
        var waiting: [ObjectIdentifier: Waiting] = [:]
        /// The waiters in the order of their charges, including entries of waiters that have left.
        var turns = Heap<Turn>()
        var timer = TimerSlot()
    }

    private struct Effects {
        var wakes: [@Sendable () -> Void] = []
        var move: TimerSlot.Move?
    }

    private let clock: any RequestClock
    private let state: Locked<State>
    /// Without a limit, no transfer waits.
    private let isSet: Atomic<Bool>

    /// - Parameter rate: bytes per second; nil and values below 1 mean no limit.
    init(_ rate: Int64?, clock: any RequestClock) {
        self.clock = clock
        let bucket = Self.makeBucket(rate, clock.now)
        isSet = Atomic(bucket != nil)
        state = Locked(State(bucket: bucket))
    }

    private static func makeBucket(_ rate: Int64?, _ now: ContinuousClock.Instant) -> TokenBucket? {
        rate.flatMap { $0 > 0 ? TokenBucket(rate: $0, now: now) : nil }
    }

    /// Nil and values below 1 mean no limit; a change takes effect at once, also for waiting transfers.
    var bytesPerSecond: Int64? {
        get { state.withLock { $0.bucket?.rate } }
        set {
            let now = clock.now
            let effects = state.withLock { state in
                if let newValue, newValue > 0, state.bucket != nil {
                    state.bucket?.setRate(newValue, now: now)
                } else {
                    state.bucket = Self.makeBucket(newValue, now)
                }
                defer { isSet.store(state.bucket != nil, ordering: .releasing) }
                return Self.settle(&state, now)
            }
            perform(effects)
        }
    }

    /// Whether there is no limit, read without the lock.
    var isUnlimited: Bool { !isSet.load(ordering: .acquiring) }

    /// The bytes of a twentieth of a second, but at least 1,024: small charges keep each wait short.
    var pieceBytes: Int {
        if isUnlimited { return .max }
        return state.withLock { $0.bucket.map { Int(clamping: max(1_024, $0.rate / 20)) } ?? .max }
    }

    // False if the transfer must wait until the charge is paid. Then `wake` is called when all its charges are paid,
    // unless `leave` has removed it; on any thread, without a lock.
    func charge(
        _ count: Int, to payer: ObjectIdentifier, wake: @autoclosure () -> @Sendable () -> Void
    ) -> Bool {
        if isUnlimited { return true }
        let now = clock.now
        let effects: Effects? = state.withLock { state in
            guard let position = state.bucket?.charge(count, now: now),
                let moment = state.bucket?.moment(of: position), moment > now
            else { return nil }
            state.waiting[payer] = Waiting(position: position, wake: wake())
            state.turns.insert(Turn(position: position, payer: payer))
            return Self.settle(&state, now)
        }
        if let effects { perform(effects) }
        return effects == nil
    }

    /// Whether a transfer waits until its charges are paid.
    func holds(_ payer: ObjectIdentifier) -> Bool { !isUnlimited && state.withLock { $0.waiting[payer] != nil } }

    /// The bytes of an ended transfer have arrived, so its charges remain, and other transfers wait for their payment.
    func leave(_ payer: ObjectIdentifier) {
        if isUnlimited { return }
        let (effects, gone) = state.withLock { state -> (Effects?, Waiting?) in
            guard let gone = state.waiting.removeValue(forKey: payer) else { return (nil, nil) }
            guard state.waiting.isEmpty else { return (nil, gone) }
            state.turns = Heap()
            return (Effects(move: state.timer.move(to: nil)), gone)
        }
        // `gone.wake` may hold the last reference to an object. `gone` lives until here, so that the object is released
        // outside the lock.
        withExtendedLifetime(gone) { if let effects { perform(effects) } }
    }

    /// Removes the waiters whose charges are paid, and sets the timer for the next waiter.
    private static func settle(_ state: inout State, _ now: ContinuousClock.Instant) -> Effects {
        var effects = Effects()
        while let turn = state.turns.first {
            if state.waiting[turn.payer]?.position == turn.position {
                let moment = state.bucket?.moment(of: turn.position) ?? now
                guard moment <= now else {
                    effects.move = state.timer.move(to: moment)
                    return effects
                }
                if let paid = state.waiting.removeValue(forKey: turn.payer) { effects.wakes.append(paid.wake) }
            }
            _ = state.turns.popFirst()
        }
        effects.move = state.timer.move(to: nil)
        return effects
    }

    private func perform(_ effects: Effects) {
        effects.move?.perform(on: clock, withSlot: { change in state.withLock { change(&$0.timer) } }) {
            [weak self] number in
            self?.fire(number)
        }
        for wake in effects.wakes { wake() }
    }

    /// - Thread: the clock's queue.
    private func fire(_ number: UInt64) {
        let now = clock.now
        let effects: Effects? = state.withLock { state in
            guard state.timer.fired(number) else { return nil }
            return Self.settle(&state, now)
        }
        if let effects { perform(effects) }
    }
}

// The count of paid bytes grows with time, at the rate. A charge is paid when the count reaches its position, the sum
// of all charges up to it. So charges are paid in order, rounding errors do not add up, and a new rate applies to all
// unpaid charges.
struct TokenBucket {
    private(set) var rate: Int64
    private(set) var charged: Int64 = 0
    /// If the count of paid bytes exceeds the sum of all charges, the difference is credit for later charges.
    private var anchor: (instant: ContinuousClock.Instant, paid: Int64)

    init(rate: Int64, now: ContinuousClock.Instant) {
        self.rate = max(1, rate)
        anchor = (now, Self.burst(of: self.rate))
    }

    /// The bytes allowed at once after a pause: the bytes of a tenth of a second.
    private static func burst(of rate: Int64) -> Int64 { max(1, rate / 10) }

    /// Returns the position to pass to ``moment(of:)``.
    mutating func charge(_ count: Int, now: ContinuousClock.Instant) -> Int64 {
        limitCredit(now)
        charged = charged.addingSaturated(Int64(max(0, count)))
        return charged
    }

    func moment(of position: Int64) -> ContinuousClock.Instant {
        anchor.instant + .seconds(position.subtractingSaturated(anchor.paid)) / rate
    }

    mutating func setRate(_ newRate: Int64, now: ContinuousClock.Instant) {
        limitCredit(now)
        // This is the only rounding; it happens once for each change of the rate.
        let paid = anchor.instant.duration(to: now).seconds * Double(rate)
        let whole = Int64(min(max(0, paid), 9e18))
        anchor = (max(now, anchor.instant), min(anchor.paid.addingSaturated(whole), fullPaid))
        rate = max(1, newRate)
    }

    private var fullPaid: Int64 { charged.addingSaturated(Self.burst(of: rate)) }

    private mutating func limitCredit(_ now: ContinuousClock.Instant) {
        if moment(of: fullPaid) < now { anchor = (now, fullPaid) }
    }
}

extension Int64 {
    fileprivate func addingSaturated(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other > 0 ? .max : .min) : sum
    }

    fileprivate func subtractingSaturated(_ other: Int64) -> Int64 {
        let (difference, overflows) = subtractingReportingOverflow(other)
        return overflows ? (other < 0 ? .max : .min) : difference
    }
}
