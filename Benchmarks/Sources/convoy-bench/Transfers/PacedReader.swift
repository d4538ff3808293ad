// Who reads a body, as fast as it comes or at a rate, for some time.
import Foundation
import Synchronization

/// A reader that takes at most so many bytes a second, and leaves after a while.
final class PacedReader: Sendable {
    private struct State {
        var byteCount = 0
        var start: ContinuousClock.Instant?
        var hasLeft = false
    }

    private let bytesPerSecond: Int?
    private let seconds: Int
    private let state = Mutex(State())

    /// - Parameter bytesPerSecond: nil for a reader that takes what comes.
    init(bytesPerSecond: Int?, seconds: Int) {
        self.bytesPerSecond = bytesPerSecond
        self.seconds = seconds
    }

    /// How many bytes it has taken.
    var byteCount: Int { state.withLock { $0.byteCount } }
    /// Whether its time was up before the end of the body.
    var hasLeft: Bool { state.withLock { $0.hasLeft } }

    /// Takes bytes; false when the reader leaves.
    func take(_ count: Int) async throws -> Bool {
        if let rest = note(count) { try await Task.sleep(until: rest) }
        return !hasLeft
    }

    /// The same, keeping the thread.
    func takeBlocking(_ count: Int) -> Bool {
        if let rest = note(count) {
            Thread.sleep(forTimeInterval: max(0, ContinuousClock.now.duration(to: rest) / .seconds(1)))
        }
        return !hasLeft
    }

    /// Counts bytes; the result is until when no more are taken.
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
