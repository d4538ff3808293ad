// The timer for drawing.
@preconcurrency import Dispatch

/// Calls a function at an interval until the ticker is stopped.
///
/// A call that takes longer than the interval delays the next call; missed calls are skipped.
final class Ticker: Sendable {
    private let queue = DispatchQueue(label: "convoy.ticker")
    private let timer: any DispatchSourceTimer

    /// - Parameter tick: called on one queue, the first time after one interval.
    init(every interval: DispatchTimeInterval, _ tick: @escaping @Sendable () -> Void) {
        timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: .milliseconds(10))
        timer.setEventHandler(handler: tick)
        timer.resume()
    }

    /// Stops the timer.
    ///
    /// When `stop` returns, no call is running and none will follow.
    ///
    /// Do not call `stop` from the function that the ticker calls: it would wait for itself.
    func stop() {
        timer.cancel()
        queue.sync {}
    }

    deinit { timer.cancel() }
}

extension Ticker {
    /// Calls `tick` at an interval while `body` runs; never if the interval is nil.
    static func ticking<Value>(
        every interval: DispatchTimeInterval?, _ tick: @escaping @Sendable () -> Void,
        while body: () async throws -> Value
    ) async rethrows -> Value {
        let ticker = interval.map { Ticker(every: $0, tick) }
        defer { ticker?.stop() }
        return try await body()
    }
}
