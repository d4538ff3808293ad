// Waiting on the current run loop.
import Foundation

extension RequestOperation {
    /// Starts the operation and runs the current run loop in a mode until it has finished.
    ///
    /// What is due on that loop in that mode meanwhile runs: callbacks delivered there, timers. An operation that a
    /// manager has queued is not started, only waited for. May be called on a thread of any kind; not from a callback
    /// that holds up this operation's own queue, where only the timeout helps.
    ///
    /// - Parameters:
    ///   - mode: the run loop mode; `.default` by default.
    ///   - timeout: how long to wait; for ever by default. When it is over, the operation ends with `.timedOut`.
    /// - Returns: the response.
    /// - Throws: the operation's error.
    @discardableResult
    @available(*, noasync, message: "it would block a thread of the concurrency pool: await response() instead")
    public func startAndWait(
        in mode: RunLoop.Mode = .default, timeout: Duration? = nil
    ) throws(RequestError) -> Response<Output> {
        if state.withLock({ $0.queueEntry == nil }) { start() }
        let loop = RunLoop.current
        let began = ContinuousClock.now
        // A loop without a source returns at once; this one keeps it asleep for as long as it is told.
        let anchor = Timer(timeInterval: 3_600, repeats: true) { _ in }
        loop.add(anchor, forMode: mode)
        defer { anchor.invalidate() }
        var toldAt: ContinuousClock.Instant?
        while true {
            let delivery = state.withLock { $0.machine.delivery }
            let (isDelivering, isSettled) = (delivery.hasBegun, delivery.isSettled)
            // Callbacks due on this loop get their turn; those sent elsewhere may take longer than is waited for.
            if isDelivering, toldAt == nil { toldAt = .now }
            if isSettled || toldAt.map({ $0.duration(to: .now) > .milliseconds(250) }) == true { break }
            let waited = began.duration(to: .now)
            if let timeout, waited >= timeout, !isDelivering {
                conclude(.timedOut, "it had not finished when the \(timeout) to wait were over")
                break
            }
            // In slices: neither a timer nor a performed block makes a run loop return, and Linux has no call that does.
            // They grow with the wait, so that a quick answer is seen quickly and a long wait costs next to nothing.
            let slice = min(
                .milliseconds(10), waited / 4 + .microseconds(100),
                timeout.map { max(.microseconds(100), $0 - waited) } ?? .seconds(1))
            let end = ContinuousClock.now + slice
            _ = loop.run(mode: mode, before: Date(timeIntervalSinceNow: slice.seconds))
            // Some modes return at once: `.common` is the name of a set.
            if mode == .common, .now < end {
                _ = loop.run(mode: .default, before: Date(timeIntervalSinceNow: slice.seconds))
            }
        }
        // The conclusion is stored; a finish under way on another thread needs no run loop.
        guard let result else {
            throw RequestError(.timedOut, "it had not finished", request: label)
        }
        return try result.get()
    }
}
