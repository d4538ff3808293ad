// The byte counts of one transfer, in each direction.

/// The progress of one direction, a snapshot: bytes transferred, total bytes, and speed.
public struct ByteProgress: Sendable, Hashable {
    /// The number of bytes transferred so far.
    public internal(set) var completedBytes: Int64
    // Negative numbers mean nil. Optionals would need more memory, and every queued operation has two `ByteProgress`.
    private var knownTotal: Int64 = -1
    private var knownRate: Int64 = -1

    /// Makes the progress of one direction, of the properties with these names.
    public init(completedBytes: Int64 = 0, totalBytes: Int64? = nil, bytesPerSecond: Int64? = nil) {
        self.completedBytes = completedBytes
        (knownTotal, knownRate) = (totalBytes ?? -1, bytesPerSecond ?? -1)
    }

    /// The total number of bytes; nil while it is unknown.
    public internal(set) var totalBytes: Int64? {
        get { knownTotal < 0 ? nil : knownTotal }
        set { knownTotal = newValue ?? -1 }
    }

    /// The speed over the last few seconds, a moving average; bytes from three seconds ago count about a third.
    ///
    /// Nil at first, after a restart, and where it is not measured: only the handlers of
    /// ``AnyRequestOperation/onProgress(on:every:_:)-(Delivery?,_,_)`` and ``Batch/progress`` have it.
    public internal(set) var bytesPerSecond: Int64? {
        get { knownRate < 0 ? nil : knownRate }
        set { knownRate = newValue ?? -1 }
    }

    /// The transferred fraction, 0 to 1; nil while the total is unknown.
    public var fractionCompleted: Double? {
        totalBytes.map { total in total > 0 ? min(1, Double(completedBytes) / Double(total)) : 1 }
    }

    mutating func measure(with meter: inout RateMeter, at moment: ContinuousClock.Instant) {
        guard completedBytes > 0 else { return }
        meter.note(completedBytes, at: moment)
        bytesPerSecond = meter.bytesPerSecond.flatMap { Int64(exactly: $0.rounded()) }
    }
}

/// The bytes that one request has transferred so far, in each direction.
///
/// If a body starts again, after a retry or a resumption that starts over, its count restarts from zero. The count of a
/// resumed download continues.
///
/// ```swift
/// operation.onProgress(on: .main, every: .milliseconds(100)) { progress in
///     sent.progress = progress.upload.fractionCompleted ?? 0
///     received.progress = progress.download.fractionCompleted ?? 0
/// }
/// ```
///
/// ## Topics
/// - ``upload``
/// - ``download``
/// - ``resumedBytes``
public struct TransferProgress: Sendable, Hashable {
    /// The body of the request; its total is nil without a body, and for a body of unknown length.
    public internal(set) var upload: ByteProgress
    /// The body of the response, after content decoding if the transport decodes, including the existing part of a
    /// resumed download; its total is nil until a head has declared a length.
    public internal(set) var download: ByteProgress
    /// The bytes of the download that an earlier attempt, or an earlier run of the program, had received.
    public internal(set) var resumedBytes: Int64

    /// Makes progress of the properties with these names, by default at zero.
    public init(
        upload: ByteProgress = ByteProgress(), download: ByteProgress = ByteProgress(), resumedBytes: Int64 = 0
    ) {
        self.upload = upload
        self.download = download
        self.resumedBytes = resumedBytes
    }
}
