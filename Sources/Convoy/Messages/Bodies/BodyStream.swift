// A body that is produced while it is sent, by an InputStream or an AsyncSequence.
import Foundation

/// The bytes of a body that the caller's code produces while they are sent.
///
/// ``Request/body(byteCount:canRepeat:contentType:stream:)`` and its variants make body streams. A body stream is equal
/// only to itself.
public final class BodyStream: Sendable {
    /// The length in bytes.
    ///
    /// With nil the length is unknown, and the body is sent in chunks (RFC 9112, section 7.1).
    public let byteCount: Int64?
    /// Whether the stream can be read again from its beginning.
    public let canRepeat: Bool
    /// Whether the bytes come from an async sequence, so that no thread should wait for them.
    let comesInItsOwnTime: Bool
    private let open: @Sendable () throws(RequestError) -> BodyReading
    private let hasBegun = Locked(false)

    private init(
        byteCount: Int64?, canRepeat: Bool, comesInItsOwnTime: Bool,
        open: @escaping @Sendable () throws(RequestError) -> BodyReading
    ) {
        self.byteCount = byteCount
        self.canRepeat = canRepeat
        self.comesInItsOwnTime = comesInItsOwnTime
        self.open = open
    }

    /// Whether reading has begun and cannot be repeated.
    var isUsedUp: Bool { !canRepeat && hasBegun.withLock { $0 } }

    /// Starts to read the stream from its beginning.
    ///
    /// - Thread: one that may block. The caller's code runs on it.
    /// - Throws: `.bodyNotReplayable` if reading has begun before and cannot be repeated, `.bodyUnreadable` if the
    ///   stream cannot be opened.
    func begin() throws(RequestError) -> BodyReading {
        let mayBegin = hasBegun.withLock { hasBegun in
            defer { hasBegun = true }
            return canRepeat || !hasBegun
        }
        guard mayBegin else { throw .bodyNotReplayable }
        return try open()
    }

    /// A stream that a function makes for each attempt.
    static func stream(
        byteCount: Int64?, canRepeat: Bool, _ make: @escaping @Sendable () -> InputStream?
    ) -> BodyStream {
        BodyStream(byteCount: byteCount, canRepeat: canRepeat, comesInItsOwnTime: false) { () throws(RequestError) in
            guard let stream = make() else {
                throw RequestError(.bodyUnreadable, "the body cannot be sent: its closure returned no stream")
            }
            return .blocking(StreamReader(stream, byteCount: byteCount))
        }
    }

    /// The chunks of a sequence, requested with the priority of the task that builds the request.
    static func sequence<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64?, canRepeat: Bool
    ) -> BodyStream where Chunks.Element == Data {
        let priority = Task.currentPriority
        return BodyStream(byteCount: byteCount, canRepeat: canRepeat, comesInItsOwnTime: true) {
            () throws(RequestError) in
            .waiting(SequenceReader(chunks, byteCount: byteCount, priority: priority))
        }
    }
}

extension BodyStream: Hashable {
    /// Whether both are the same stream.
    public static func == (left: BodyStream, right: BodyStream) -> Bool { left === right }
    /// Hashes its identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
