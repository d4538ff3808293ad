// Wake-ups of other threads that a thread postpones while it has more work.

// A woken thread often takes the core of the thread that woke it, which then has to be scheduled again. A transport's
// thread may end many requests in one turn. So it ends many of them first, and then performs all their wake-ups.
final class WakeUps {
    private static let current = ThreadSlot<WakeUps>()

    private var postponed: [() -> Void] = []

    /// Wake-ups on this thread are postponed until ``performPostponed()``, at the latest until the function returns.
    static func postponing(_ body: () -> Void) {
        let wakeUps = WakeUps()
        current.with(wakeUps, body)
        wakeUps.performAll()
    }

    static func perform(_ wakeUp: @escaping () -> Void) {
        guard let wakeUps = current.value else { return wakeUp() }
        wakeUps.postponed.append(wakeUp)
    }

    static func performPostponed() { current.value?.performAll() }

    /// For code that may make the thread wait: nothing is postponed meanwhile.
    static func performingAtOnce(_ body: () -> Void) {
        performPostponed()
        current.with(nil, body)
    }

    private func performAll() {
        while !postponed.isEmpty {
            let wakeUps = postponed
            postponed = []
            for wakeUp in wakeUps { wakeUp() }
        }
    }
}
