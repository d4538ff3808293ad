// The progress of a batch.

/// The progress of a batch, in members and in bytes of both directions.
public struct BatchProgress: Sendable, Hashable {
    /// Members that have finished, with any outcome.
    public internal(set) var finishedCount = 0
    /// Members that have finished without success.
    public internal(set) var failedCount = 0
    /// Members that the source had announced and that were cancelled before the batch pulled them.
    ///
    /// Skipped members count as finished and failed, too.
    public internal(set) var skippedCount = 0
    /// The total number of members; nil while the source may still return an unknown number.
    public internal(set) var totalCount: Int?
    /// Body bytes that all members together have sent; see ``download``.
    public internal(set) var upload = ByteProgress()
    /// Body bytes that all members together have received.
    ///
    /// The bytes never decrease, even when a member's body starts again. The total adds the announced length of each
    /// member. A member without an announced length, or a finished member, contributes the bytes it has moved. The
    /// total therefore grows as members start. The total is nil until a length is known.
    public internal(set) var download = ByteProgress()
    /// The completed fraction, 0 to 1.
    ///
    /// Each member counts the same; a running member counts by its bytes in both directions.
    ///
    /// The fraction never decreases.
    public internal(set) var fractionCompleted = 0.0
}

/// Adds up the progress of a batch's members, without a lock of its own.
struct BatchMeter {
    private struct Member {
        /// The member's contribution to the sums.
        var (upload, download) = (ByteProgress(), ByteProgress())
        var fraction = 0.0
    }

    private(set) var progress = BatchProgress()
    /// The progress of the running members, each at its ``BatchMember/index``.
    private var members: [Member] = []
    private var runningFraction = 0.0
    private var (uploadRate, downloadRate) = (RateMeter(), RateMeter())
    /// The bytes sent and received at the last measurement of the rates.
    private var measured: (upload: Int64, download: Int64) = (0, 0)

    mutating func start(_ index: Int) {
        while members.count <= index { members.append(Member()) }
        members[index] = Member()
    }

    /// - Parameter now: nil when no rate is measured.
    mutating func move(_ index: Int, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        progress.upload.add(transfer.upload, countedIn: &members[index].upload)
        progress.download.add(transfer.download, countedIn: &members[index].download)
        if let now { measure(at: now) }
        let fraction = max(members[index].fraction, transfer.fractionOfMember)
        runningFraction += fraction - members[index].fraction
        members[index].fraction = fraction
        update()
    }

    /// Measures the rates if bytes have moved since the last measurement.
    mutating func measure(at now: ContinuousClock.Instant) {
        if progress.upload.completedBytes != measured.upload { progress.upload.measure(with: &uploadRate, at: now) }
        if progress.download.completedBytes != measured.download {
            progress.download.measure(with: &downloadRate, at: now)
        }
        measured = (progress.upload.completedBytes, progress.download.completedBytes)
    }

    /// - Parameter index: nil for an error of the source, which counts as a member that never started.
    mutating func finish(_ index: Int?, isSuccess: Bool) {
        if let index {
            runningFraction -= members[index].fraction
            // The member moves no more bytes, so its total becomes the number of bytes that it has moved.
            progress.upload.end(&members[index].upload)
            progress.download.end(&members[index].download)
            members[index] = Member()
        }
        progress.finishedCount += 1
        if !isSuccess { progress.failedCount += 1 }
        update()
    }

    /// Counts announced requests that a cancelled batch will not pull.
    mutating func skip(_ count: Int) {
        progress.finishedCount += count
        progress.failedCount += count
        progress.skippedCount += count
        update()
    }

    /// Sets the total number of members; nil when unknown.
    mutating func expect(_ total: Int?) {
        progress.totalCount = total
        update()
    }

    /// Sets the fraction of an empty batch to 1, because no member ends in it.
    mutating func complete() {
        if progress.totalCount == 0 { progress.fractionCompleted = 1 }
    }

    private mutating func update() {
        guard let total = progress.totalCount, total > 0 else { return }
        // The sum of fractions is not exact: it may differ from zero when all members have finished.
        let running = progress.finishedCount < total ? runningFraction : 0
        let done = (Double(progress.finishedCount) + running) / Double(total)
        progress.fractionCompleted = max(progress.fractionCompleted, min(1, done))
    }
}

extension ByteProgress {
    /// Adds the bytes that a member has sent or received.
    ///
    /// - Parameter counted: the member's contribution to the sum. A body that starts again counts once it has passed
    ///   its former position.
    fileprivate mutating func add(_ member: ByteProgress, countedIn counted: inout ByteProgress) {
        let bytes = max(counted.completedBytes, member.completedBytes)
        // Servers may announce any number, and the sum must not overflow.
        let total = (member.totalBytes ?? counted.totalBytes).map { max(min($0, 1 << 46), bytes) }
        replace(&counted, by: ByteProgress(completedBytes: bytes, totalBytes: total))
    }

    /// Replaces the announced length of a member with the bytes it has moved.
    fileprivate mutating func end(_ counted: inout ByteProgress) {
        let total = counted.totalBytes.map { _ in counted.completedBytes }
        replace(&counted, by: ByteProgress(completedBytes: counted.completedBytes, totalBytes: total))
    }

    private mutating func replace(_ old: inout ByteProgress, by new: ByteProgress) {
        if totalBytes != nil || new.totalBytes != nil {
            totalBytes =
                (totalBytes ?? completedBytes) &- (old.totalBytes ?? old.completedBytes)
                &+ (new.totalBytes ?? new.completedBytes)
        }
        completedBytes &+= new.completedBytes &- old.completedBytes
        old = new
    }
}

extension TransferProgress {
    /// The assumed length of a response while its length is unknown.
    private static var assumedBytes: Double { 64 * 1024 }

    /// The completed fraction of a member: the bytes sent and received, divided by the totals.
    fileprivate var fractionOfMember: Double {
        let sent = Double(upload.totalBytes == nil ? 0 : upload.completedBytes)
        let toSend = Double(upload.totalBytes ?? 0)
        guard let total = download.totalBytes else { return sent / max(1, toSend + Self.assumedBytes) }
        let whole = toSend + Double(total)
        return whole > 0 ? min(1, (sent + Double(download.completedBytes)) / whole) : 1
    }
}
