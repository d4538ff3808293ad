// Wake-ups of other threads that a thread postpones while it has more work.

// A woken thread often takes the core of the thread that woke it, which then has to be scheduled again. A transport's
// thread may end many requests in one turn. So it ends many of them first, and then performs all their wake-ups.
final class WakeUps {
    /// Nil while nothing is postponed on this thread.
    static let current = ThreadSlot<WakeUps>()

    private var postponed: [() -> Void] = []

    /// Wake-ups on this thread are postponed until ``performPostponed()``, at the latest until the function returns.
    static func postponing(_ body: () -> Void) {
        current.with(WakeUps()) {
            body()
            performPostponed()
        }
    }

    static func perform(_ wakeUp: @escaping () -> Void) {
        guard let wakeUps = current.value else { return wakeUp() }
        wakeUps.postponed.append(wakeUp)
    }

    static func performPostponed() {
        guard let wakeUps = current.value else { return }
        while !wakeUps.postponed.isEmpty {
            let postponed = wakeUps.postponed
            wakeUps.postponed = []
            for wakeUp in postponed { wakeUp() }
        }
    }
}
