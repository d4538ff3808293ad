// So many bytes a second, for all that are charged to one limit.

import Synchronization

/// Lets at most so many bytes a second come: a transfer that charges more waits for its turn.
///
/// First come, first served: each charge is paid after those before it, so that all that want more get equal shares.
///
/// ## Concurrency
/// One lock, a leaf. Waiters are called with no lock held.
///
/// - Complexity: O(log *n*) amortised for *n* waiters, every member.
final class RateLimit: Sendable {
    private struct Turn: Comparable {
        let position: Int64
        let payer: ObjectIdentifier

        static func < (left: Turn, right: Turn) -> Bool { left.position < right.position }
    }

    private struct Waiting {
        /// Of his last charge.
        let position: Int64
        let wake: @Sendable () -> Void
    }

    private struct State {
        /// Nil for no limit.
        var bucket: TokenBucket?
        var waiting: [ObjectIdentifier: Waiting] = [:]
        /// The waiters in order, and entries of some that have left.
        var turns = Heap<Turn>()
        var timer = TimerSlot()
    }

    /// What is to be done outside the lock.
    private struct Effects {
        var wakes: [@Sendable () -> Void] = []
        var move: TimerSlot.Move?
    }

    private let clock: any RequestClock
    private let state: Locked<State>
    /// Whether there is a limit; while there is none, no transfer waits.
    private let isSet: Atomic<Bool>

    /// Makes a limit.
    ///
    /// - Parameter rate: bytes a second; nil and less than 1 mean none.
    init(_ rate: Int64?, clock: any RequestClock) {
        self.clock = clock
        let bucket = Self.makeBucket(rate, clock.now)
        isSet = Atomic(bucket != nil)
        state = Locked(State(bucket: bucket))
    }

    private static func makeBucket(_ rate: Int64?, _ now: ContinuousClock.Instant) -> TokenBucket? {
        rate.flatMap { $0 > 0 ? TokenBucket(rate: $0, now: now) : nil }
    }

    /// Bytes a second; nil for no limit, and setting less than 1 means none too.
    ///
    /// A change takes effect at once, for those that wait as well.
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

    /// Without a limit a charge costs no lock.
    var isUnlimited: Bool { !isSet.load(ordering: .acquiring) }

    /// How many bytes are to be charged at a time, so that no transfer waits long: what comes in a twentieth of a second.
    var pieceBytes: Int {
        if isUnlimited { return .max }
        return state.withLock { $0.bucket.map { Int(clamping: max(1_024, $0.rate / 20)) } ?? .max }
    }

    /// Charges bytes that have come; false when they have to be waited for.
    ///
    /// - Parameters:
    ///   - payer: whose bytes they are; charged again while it waits, it waits for all.
    ///   - wake: is called when they have been paid for, unless it leaves: on any thread, with no lock held.
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

    /// Whether a transfer waits until its charges have been paid for.
    func holds(_ payer: ObjectIdentifier) -> Bool { !isUnlimited && state.withLock { $0.waiting[payer] != nil } }

    /// Forgets a transfer that has ended; what it was charged has come, and others wait for it.
    func leave(_ payer: ObjectIdentifier) {
        if isUnlimited { return }
        let (effects, gone) = state.withLock { state -> (Effects?, Waiting?) in
            guard let gone = state.waiting.removeValue(forKey: payer) else { return (nil, nil) }
            guard state.waiting.isEmpty else { return (nil, gone) }
            state.turns = Heap()
            return (Effects(move: state.timer.move(to: nil)), gone)
        }
        // What it captured goes outside the lock.
        withExtendedLifetime(gone) { if let effects { perform(effects) } }
    }

    /// Takes out whose charges have been paid for, and sets the timer for the next.
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
