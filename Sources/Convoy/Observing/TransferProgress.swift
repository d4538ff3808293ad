// The byte counts of one transfer.

/// The bytes one request has moved so far.
///
/// A body that starts again (a retry, a resumed transfer the platform restarts) counts from zero again.
public struct TransferProgress: Sendable, Hashable {
    /// Body bytes received, after content decoding where the transport decodes.
    public internal(set) var receivedBytes: Int64 = 0
    /// Body bytes the server announced; nil when it did not.
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
