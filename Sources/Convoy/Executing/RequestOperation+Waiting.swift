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
    @available(*, noasync, message: "it would block a thread of the concurrency pool: await response() instead")
    public func startAndWait(
        in mode: RunLoop.Mode = .default, timeout: Duration? = nil
    ) throws(RequestError) -> Response<Output> {
        if state.withLock({ $0.scheduler == nil }) { start() }
        let loop = RunLoop.current
        let began = ContinuousClock.now
        // A loop without a source returns at once; this one keeps it asleep for as long as it is told.
        let anchor = Timer(timeInterval: 3_600, repeats: true) { _ in }
        loop.add(anchor, forMode: mode)
        defer { anchor.invalidate() }
        while !hasOutcome {
            let waited = began.duration(to: .now)
            if let timeout, waited >= timeout {
                conclude(.timedOut, "it had not finished when the \(timeout) to wait were over")
                break
            }
            // In slices: neither a timer nor a performed block makes a run loop return, and Linux has no call that does.
            // They grow with the wait, so that a quick answer is seen quickly and a long wait costs next to nothing.
            let slice = min(
                .milliseconds(10), waited / 4 + .microseconds(100), timeout.map { $0 - waited } ?? .seconds(1))
            _ = loop.run(mode: mode, before: Date(timeIntervalSinceNow: slice.seconds))
        }
        // The conclusion is stored; a finish under way on another thread needs no run loop.
        guard let result else {
            throw RequestError(.timedOut, "it had not finished", request: label)
        }
        return try result.get()
    }

    private var hasOutcome: Bool { state.withLock { $0.isDelivering } }
}

extension Duration {
    /// The duration in seconds, for Foundation.
    var seconds: TimeInterval {
        let (seconds, attoseconds) = components
        return TimeInterval(seconds) + TimeInterval(attoseconds) * 1e-18
    }
}
