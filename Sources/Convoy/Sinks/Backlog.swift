// Counts the bytes of a body that its reader has not read.

struct Backlog {
    private(set) var bytes: Int64 = 0
    /// Whether the transfer is to pause: `highWaterBytes` bytes were unread, and more than half of them still are.
    private(set) var isPaused = false
    private let highWaterBytes: Int64
    private let limit: Int64
    private let canPause: Bool

    init(highWaterBytes: Int64 = 1 << 20, limit: Int64 = .max, canPause: Bool = true) {
        (self.highWaterBytes, self.limit) = (max(1, min(highWaterBytes, limit / 2)), limit)
        self.canPause = canPause
    }

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

    /// A transport that can pause may already have read 1 MiB from the connection when it pauses.
    func checkLimit(_ owner: String, _ state: String) throws(RequestError) {
        guard bytes - (canPause ? 1 << 20 : 0) > limit else { return }
        throw .tooLarge("\(owner) has \(bytes) \(state) bytes", limit: limit)
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
