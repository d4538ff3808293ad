// How far the reader of a body is behind.
import Dispatch

/// Counts the bytes that have arrived and have not been taken; says when no more should come.
struct Backlog {
    private(set) var bytes: Int64 = 0
    /// Whether so much waits that no more should come.
    private(set) var isHeld = false
    private let highWaterBytes: Int64

    init(highWaterBytes: Int64) { self.highWaterBytes = max(1, highWaterBytes) }

    /// What may come over a limit where the transport can be held: what it had in hands.
    static let slackBytes: Int64 = 1 << 20

    mutating func add(_ count: Int) {
        bytes += Int64(count)
        if bytes >= highWaterBytes { isHeld = true }
    }

    /// Counts what has been taken; true when more may come that could not before.
    mutating func remove(_ count: Int) -> Bool {
        bytes -= Int64(count)
        guard isHeld, bytes <= highWaterBytes / 2 else { return false }
        isHeld = false
        return true
    }
}

/// What a sink that works elsewhere tells the attempt it works for; on any thread, with no lock held.
struct SinkCalls: Sendable {
    /// It cannot take the body: once or never.
    let fail: @Sendable (RequestError) -> Void
    /// ``BodySink/isHeld`` has turned false; it may come late, so look then.
    let caughtUp: @Sendable () -> Void
    /// Whether the transport stops when it is told that no more should come.
    let canHold: Bool
    /// A serial queue that all sinks of one operation share; asked for when one is needed.
    let queue: @Sendable () -> DispatchQueue
}
