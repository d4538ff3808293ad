// The one timer that draws.
import Convoy
@preconcurrency import Dispatch

/// Calls something again and again until it is stopped; a call that takes long is not caught up with.
final class Ticker: Sendable {
    private struct State {
        var timer: (any DispatchSourceTimer)?
    }

    private let queue = DispatchQueue(label: "convoy.ticker")
    private let state = Locked(State())

    /// - Parameter tick: called on one queue, the first time after one interval.
    init(every interval: DispatchTimeInterval, _ tick: @escaping @Sendable () -> Void) {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: .milliseconds(10))
        timer.setEventHandler(handler: tick)
        state.withLock { $0.timer = timer }
        timer.resume()
    }

    /// Ends it; when this returns, no call is under way or will come.
    ///
    /// Not to be called from a tick.
    func stop() {
        let timer = state.withLock { state in
            defer { state.timer = nil }
            return state.timer
        }
        timer?.cancel()
        queue.sync {}
    }

    deinit { state.withLock { $0.timer }?.cancel() }
}
