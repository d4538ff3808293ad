// The byte counts of one transfer, each way.

/// How far the bytes of one direction are: how many, of how many, and how fast.
///
/// A value: it does not change by itself.
public struct ByteProgress: Sendable, Hashable {
    /// The bytes that have moved.
    public internal(set) var completedBytes: Int64
    // Negative for nil, in place of optionals: every queued operation has two of these.
    private var knownTotal: Int64 = -1
    private var knownRate: Int64 = -1

    /// Makes the progress of one direction.
    ///
    /// - Parameters:
    ///   - completedBytes: the bytes that have moved.
    ///   - totalBytes: the bytes there are to move; nil when that is not known.
    ///   - bytesPerSecond: how fast they move; nil when that is not known.
    public init(completedBytes: Int64 = 0, totalBytes: Int64? = nil, bytesPerSecond: Int64? = nil) {
        self.completedBytes = completedBytes
        (knownTotal, knownRate) = (totalBytes ?? -1, bytesPerSecond ?? -1)
    }

    /// The bytes there are to move; nil while that is not known.
    public internal(set) var totalBytes: Int64? {
        get { knownTotal < 0 ? nil : knownTotal }
        set { knownTotal = newValue ?? -1 }
    }

    /// The bytes a second of the last few seconds, a moving average: what is three seconds old counts about a third.
    ///
    /// Nil until the bytes have moved for a moment, after they began again, and where it is not measured: it is for those
    /// that are told, by ``AnyRequestOperation/onProgress(on:every:_:)-(Delivery?,_,_)`` and by ``Batch/progress``.
    public internal(set) var bytesPerSecond: Int64? {
        get { knownRate < 0 ? nil : knownRate }
        set { knownRate = newValue ?? -1 }
    }

    /// The part that has moved, 0 to 1; nil while the total is not known.
    public var fractionCompleted: Double? {
        totalBytes.map { total in total > 0 ? min(1, Double(completedBytes) / Double(total)) : 1 }
    }
}

/// The bytes one request has moved so far, each way.
///
/// A body that starts again (a retry, a resumed transfer the platform restarts) counts from zero again; a download that is
/// continued counts on.
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
    /// The body of the request; its total is nil when there is no body, or one of unknown length.
    public internal(set) var upload: ByteProgress
    /// The body of the answer, after content decoding where the transport decodes; of a download that was continued, what
    /// was there included.
    ///
    /// Its total is nil until the head of the answer has arrived, and where that announces none.
    public internal(set) var download: ByteProgress
    /// Of the received bytes those that an earlier attempt, or an earlier run of the program, had left.
    public internal(set) var resumedBytes: Int64

    /// Makes progress, at zero unless it says more.
    ///
    /// - Parameters:
    ///   - upload: the body of the request.
    ///   - download: the body of the answer.
    ///   - resumedBytes: those of the answer that were there before.
    public init(
        upload: ByteProgress = ByteProgress(), download: ByteProgress = ByteProgress(), resumedBytes: Int64 = 0
    ) {
        self.upload = upload
        self.download = download
        self.resumedBytes = resumedBytes
    }
}

extension TransferProgress {
    /// Counts what is received from zero again.
    mutating func forgetReceived() { (download, resumedBytes) = (ByteProgress(), 0) }
}

extension ByteProgress {
    /// Notes how fast it is, from its first bytes on.
    mutating func measure(with meter: inout RateMeter, at moment: ContinuousClock.Instant) {
        guard completedBytes > 0 else { return }
        meter.note(completedBytes, at: moment)
        bytesPerSecond = meter.bytesPerSecond.flatMap { Int64(exactly: $0.rounded()) }
    }
}
