// The byte counts of one transfer.

/// The bytes one request has moved so far.
///
/// A body that starts again (a retry, a resumed transfer the platform restarts) counts from zero again; a download that is
/// continued counts on.
public struct TransferProgress: Sendable, Hashable {
    /// Body bytes received, after content decoding where the transport decodes; of a download that was continued, those
    /// that were there included.
    public internal(set) var receivedBytes: Int64 = 0
    /// Of the received bytes those that an earlier attempt, or an earlier run of the program, had left.
    public internal(set) var resumedBytes: Int64 = 0
    /// The bytes of the whole body, as the server announced them; nil when it did not.
    public internal(set) var expectedBytes: Int64?
    /// Body bytes sent.
    public internal(set) var sentBytes: Int64 = 0
    /// Body bytes to send; nil when the request has no body.
    public internal(set) var expectedSentBytes: Int64?

    /// Makes progress at zero.
    public init() {}

    /// The part of the answer that has arrived, 0 to 1; nil while the length is unknown.
    public var fractionCompleted: Double? {
        expectedBytes.map { expected in expected > 0 ? min(1, Double(receivedBytes) / Double(expected)) : 1 }
    }
}

extension TransferProgress {
    /// Counts what is received from zero again.
    mutating func forgetReceived() { (receivedBytes, resumedBytes, expectedBytes) = (0, 0, nil) }
}
