// Waiting on the current run loop.
import Foundation

extension RequestOperation {
    /// Starts the operation and runs the current run loop in a mode until the operation has finished.
    ///
    /// During the wait, callbacks and timers that are due on that loop in that mode run. An operation that a manager
    /// has queued is not started, only waited for. Any thread may call this method. A callback on this operation's own
    /// executor must not call it, because then only the timeout ends the wait.
    ///
    /// - Parameters:
    ///   - mode: the run loop mode; `.default` by default.
    ///   - timeout: how long to wait; forever by default. After that time the operation fails with `.timedOut`.
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
        // A loop without a source returns at once. This timer keeps it asleep for the requested time.
        let anchor = Timer(timeInterval: 3_600, repeats: true) { _ in }
        loop.add(anchor, forMode: mode)
        defer { anchor.invalidate() }
        var toldAt: ContinuousClock.Instant?
        while true {
            let delivery = state.withLock { $0.machine.delivery }
            let (isDelivering, isSettled) = (delivery.hasBegun, delivery.isSettled)
            // Callbacks that are due on this loop may still run. After 250 ms the method returns, even if callbacks
            // elsewhere are running.
            if isDelivering, toldAt == nil { toldAt = .now }
            if isSettled || toldAt.map({ $0.duration(to: .now) > .milliseconds(250) }) == true { break }
            let waited = began.duration(to: .now)
            if let timeout, waited >= timeout, !isDelivering {
                conclude(.timedOut, "it had not finished after the timeout of \(timeout)")
                break
            }
            // The loop runs in slices, because neither a timer nor a performed block makes a run loop return, and Linux
            // has no call that does. The slices grow with the wait. A fast response is noticed quickly, and a long wait
            // costs little.
            let slice = min(
                .milliseconds(10), waited / 4 + .microseconds(100),
                timeout.map { max(.microseconds(100), $0 - waited) } ?? .seconds(1))
            let end = ContinuousClock.now + slice
            _ = loop.run(mode: mode, before: Date(timeIntervalSinceNow: slice.seconds))
            // The loop returns at once in `.common`, which is not a mode but a set of modes.
            if mode == .common, .now < end {
                _ = loop.run(mode: .default, before: Date(timeIntervalSinceNow: slice.seconds))
            }
        }
        // The outcome is already stored, even if another thread is still finishing the operation.
        guard let result else {
            throw RequestError(.timedOut, "it had not finished", request: label)
        }
        return try result.get()
    }
}
