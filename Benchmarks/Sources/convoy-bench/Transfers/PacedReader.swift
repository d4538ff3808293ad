// A reader of a body, with or without a limit of the rate, for a limited time.
import Foundation
import Synchronization

/// Reads at most a number of bytes per second, and stops after a number of seconds.
final class PacedReader: Sendable {
    private struct State {
        var byteCount = 0
        var start: ContinuousClock.Instant?
        var hasLeft = false
    }

    private let bytesPerSecond: Int?
    private let seconds: Int
    private let state = Mutex(State())

    /// - Parameter bytesPerSecond: the maximum rate; nil for no limit.
    init(bytesPerSecond: Int?, seconds: Int) {
        self.bytesPerSecond = bytesPerSecond
        self.seconds = seconds
    }

    /// The number of bytes read so far.
    var byteCount: Int { state.withLock { $0.byteCount } }
    /// Whether the reader stopped before the end of the body.
    var hasLeft: Bool { state.withLock { $0.hasLeft } }

    /// Reads bytes, and waits as the rate requires; returns false if the reader stops.
    func take(_ count: Int) async throws -> Bool {
        if let rest = note(count) { try await Task.sleep(until: rest) }
        return !hasLeft
    }

    /// Reads bytes like `take(_:)`, but blocks the thread.
    func takeBlocking(_ count: Int) -> Bool {
        if let rest = note(count) {
            Thread.sleep(forTimeInterval: max(0, ContinuousClock.now.duration(to: rest) / .seconds(1)))
        }
        return !hasLeft
    }

    /// Counts bytes; returns the time until which the reader waits, or nil if it does not wait.
    private func note(_ count: Int) -> ContinuousClock.Instant? {
        state.withLock { state in
            let now = ContinuousClock.now
            let start = state.start ?? now
            state.start = start
            guard !state.hasLeft else { return nil }
            state.byteCount += count
            let end = start + .seconds(seconds)
            let due = bytesPerSecond.map { start + .seconds(Double(state.byteCount) / Double($0)) } ?? now
            state.hasLeft = max(due, now) >= end
            return due > now ? min(due, end) : nil
        }
    }
}
