@preconcurrency import Dispatch

enum Ticker {
    // The first call is after one interval. A call that takes longer delays the next one; missed calls are skipped.
    // When `ticking` returns, no call is running and none follows.
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
