// A limit of bytes per second for several transfers.
import Synchronization

// A token bucket for several transfers. A charge for received bytes is paid when enough time has passed for its bytes at
// the rate. A transfer that has received too much pauses until its charges are paid, in order of arrival, so that
// waiting transfers get equal shares. The callbacks of waiting transfers run without a lock.
final class RateLimit: Sendable {
    private struct State {
        var bucket: TokenBucket?
        /// With the position of the waiter's last charge, as ``TokenBucket/charge(_:now:)`` returned it.
        var waiting: [ObjectIdentifier: (position: Int64, wake: @Sendable () -> Void)] = [:]
    }

    private let clock: any RequestClock
    private let state: TimedState<State>
    private let isSet: Atomic<Bool>

    /// - Parameter rate: bytes per second; nil and values below 1 mean no limit.
    init(_ rate: Int64?, clock: any RequestClock) {
        self.clock = clock
        let bucket = Self.makeBucket(rate, clock.now)
        isSet = Atomic(bucket != nil)
        state = TimedState(State(bucket: bucket), clock: clock)
    }

    private static func makeBucket(_ rate: Int64?, _ now: ContinuousClock.Instant) -> TokenBucket? {
        rate.flatMap { $0 > 0 ? TokenBucket(rate: $0, now: now) : nil }
    }

    /// Nil and values below 1 mean no limit; a change takes effect at once, also for waiting transfers.
    var bytesPerSecond: Int64? {
        get { state.withLock { $0.bucket?.rate } }
        set {
            let now = clock.now
            state.withLock { state in
                if let newValue, newValue > 0, state.bucket != nil {
                    state.bucket?.setRate(newValue, now: now)
                } else {
                    state.bucket = Self.makeBucket(newValue, now)
                }
                isSet.store(state.bucket != nil, ordering: .releasing)
            }
            settle(now)
        }
    }

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
        let isPaid = state.withLock { state in
            guard let position = state.bucket?.charge(count, now: now),
                let moment = state.bucket?.moment(of: position), moment > now
            else { return true }
            state.waiting[payer] = (position, wake())
            return false
        }
        if !isPaid { settle(now) }
        return isPaid
    }

    func holds(_ payer: ObjectIdentifier) -> Bool { !isUnlimited && state.withLock { $0.waiting[payer] != nil } }

    /// The bytes of an ended transfer have arrived, so its charges remain, and other transfers wait for their payment.
    func leave(_ payer: ObjectIdentifier) {
        if isUnlimited { return }
        // `gone.wake` may hold the last reference to an object, which is released outside the lock.
        let gone = state.withLock { $0.waiting.removeValue(forKey: payer) }
        if gone != nil { settle(clock.now) }
    }

    /// Wakes the waiters whose charges are paid, and sets the timer for the next one.
    private func settle(_ now: ContinuousClock.Instant) {
        let wake = { @Sendable [weak self] in if let self { settle(clock.now) } }
        let wakes = state.change(wake: wake) { state in
            var wakes: [@Sendable () -> Void] = []
            while let (payer, next) = state.waiting.min(by: { $0.value.position < $1.value.position }) {
                let moment = state.bucket?.moment(of: next.position) ?? now
                guard moment <= now else { return (wakes, due: moment) }
                state.waiting[payer] = nil
                wakes.append(next.wake)
            }
            return (wakes, due: nil)
        }
        for wake in wakes { wake() }
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

    /// The bytes of a tenth of a second are allowed at once after a pause.
    private static func burst(of rate: Int64) -> Int64 { max(1, rate / 10) }

    mutating func charge(_ count: Int, now: ContinuousClock.Instant) -> Int64 {
        limitCredit(now)
        charged = charged.saturatingSum(Int64(max(0, count)))
        return charged
    }

    func moment(of position: Int64) -> ContinuousClock.Instant {
        anchor.instant + .seconds(position.saturatingSum(-anchor.paid)) / rate
    }

    mutating func setRate(_ newRate: Int64, now: ContinuousClock.Instant) {
        limitCredit(now)
        // This is the only rounding; it happens once for each change of the rate.
        let paid = anchor.instant.duration(to: now).seconds * Double(rate)
        let whole = Int64(min(max(0, paid), 9e18))
        anchor = (max(now, anchor.instant), min(anchor.paid.saturatingSum(whole), fullPaid))
        rate = max(1, newRate)
    }

    private var fullPaid: Int64 { charged.saturatingSum(Self.burst(of: rate)) }

    private mutating func limitCredit(_ now: ContinuousClock.Instant) {
        if moment(of: fullPaid) < now { anchor = (now, fullPaid) }
    }
}
