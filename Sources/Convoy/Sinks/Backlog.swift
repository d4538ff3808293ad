// Counts the bytes of a body that its reader has not read.

struct Backlog {
    private(set) var bytes: Int64 = 0
    /// Whether the transfer is to pause: `highWaterBytes` bytes were unread, and more than half of them still are.
    private(set) var isPaused = false
    private let highWaterBytes: Int64

    init(highWaterBytes: Int64) { self.highWaterBytes = max(1, highWaterBytes) }

    /// The transport may already have read these bytes from the connection when it pauses.
    static let slackBytes: Int64 = 1 << 20

    /// Whether the transfer is to pause now.
    @discardableResult
    mutating func add(_ count: Int) -> Bool {
        bytes += Int64(count)
        if bytes >= highWaterBytes { isPaused = true }
        return isPaused
    }

    /// Whether the call has ended a pause, because at most half of `highWaterBytes` is left.
    mutating func remove(_ count: Int) -> Bool {
        bytes -= Int64(count)
        guard isPaused, bytes <= highWaterBytes / 2 else { return false }
        isPaused = false
        return true
    }
}

/// A sink makes the calls on any thread, without a lock.
struct SinkCalls: Sendable {
    /// Called at most once.
    let fail: @Sendable (RequestError) -> Void
    /// ``BodySink/isPaused`` has become false; when the call arrives, the sink may be paused again.
    let caughtUp: @Sendable () -> Void
    let canPause: Bool
}
