// The timer for drawing.
@preconcurrency import Dispatch

enum Ticker {
    /// Calls `tick` at an interval while `body` runs, the first time after one interval; never if the interval is nil.
    ///
    /// The calls are made on one queue. A call that takes longer than the interval delays the next call; missed calls
    /// are skipped. When `ticking` returns, no call is running and none follows.
    static func ticking<Value>(
        every interval: DispatchTimeInterval?, _ tick: @escaping @Sendable () -> Void,
        while body: () async throws -> Value
    ) async rethrows -> Value {
        guard let interval else { return try await body() }
        let queue = DispatchQueue(label: "convoy.ticker")
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: .milliseconds(10))
        timer.setEventHandler(handler: tick)
        timer.resume()
        defer {
            timer.cancel()
            queue.sync {}
        }
        return try await body()
    }
}
