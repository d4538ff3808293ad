// Counts the bytes of a body that its reader has not read.

/// Counts bytes that have arrived and have not been read, and decides when to pause the transfer.
struct Backlog {
    private(set) var bytes: Int64 = 0
    /// Whether the transfer is to pause: `highWaterBytes` bytes were unread, and more than half of them still are.
    private(set) var isPaused = false
    private let highWaterBytes: Int64

    init(highWaterBytes: Int64) { self.highWaterBytes = max(1, highWaterBytes) }

    /// How many bytes may exceed the limit of unread bytes, if the transport can pause.
    ///
    /// The transport may already have read these bytes from the connection when it pauses.
    static let slackBytes: Int64 = 1 << 20

    mutating func add(_ count: Int) {
        bytes += Int64(count)
        if bytes >= highWaterBytes { isPaused = true }
    }

    /// Counts read bytes.
    ///
    /// Returns true if the call has ended a pause, because at most half of `highWaterBytes` is left.
    mutating func remove(_ count: Int) -> Bool {
        bytes -= Int64(count)
        guard isPaused, bytes <= highWaterBytes / 2 else { return false }
        isPaused = false
        return true
    }
}

/// The calls by which a sink reports to its attempt.
///
/// A sink may work on another thread. It makes the calls on any thread, without a lock.
struct SinkCalls: Sendable {
    /// Reports that the sink has failed.
    ///
    /// Called at most once.
    let fail: @Sendable (RequestError) -> Void
    /// Reports that ``BodySink/isPaused`` has become false.
    ///
    /// When the call arrives, the sink may be paused again. So the attempt checks the property.
    let caughtUp: @Sendable () -> Void
    /// Whether the transport can pause.
    let canPause: Bool
}
