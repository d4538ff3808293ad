// How far a batch is.

/// The progress of a batch, byte by byte, each way.
public struct BatchProgress: Sendable, Hashable {
    /// Members that have finished, whatever their outcome.
    public internal(set) var finishedCount = 0
    /// Members that have finished without success.
    public internal(set) var failedCount = 0
    /// Members that the source had announced and that were cancelled before they were taken; they count as finished and
    /// failed, too.
    public internal(set) var skippedCount = 0
    /// Members there will be; nil while the source may still give more than it has told.
    public internal(set) var totalCount: Int?
    /// Body bytes that all members together have sent; see ``download``.
    public internal(set) var upload = ByteProgress()
    /// Body bytes that all members together have received.
    ///
    /// The bytes never run backwards, also when a member's body starts again. The total is what is known of it: of each
    /// member the length that was announced, and of one without, or that has finished, the bytes it has moved. So it grows
    /// as members begin; nil until a length is known.
    public internal(set) var download = ByteProgress()
    /// The part that is done, 0 to 1: each member counts the same, a running one by its bytes, both ways.
    ///
    /// Never runs backwards.
    public internal(set) var fractionCompleted = 0.0
}

/// Adds the members' progress up: a value, without lock.
struct BatchMeter {
    private struct Member {
        /// What of it is in the sums.
        var (upload, download) = (ByteProgress(), ByteProgress())
        var fraction = 0.0
    }

    private(set) var progress = BatchProgress()
    /// By the member's slot.
    private var members: [Member] = []
    private var runningFraction = 0.0
    private var (uploadRate, downloadRate) = (RateMeter(), RateMeter())
    /// The bytes at the last measurement.
    private var measured: (upload: Int64, download: Int64) = (0, 0)

    mutating func start(_ slot: Int) {
        while members.count <= slot { members.append(Member()) }
        members[slot] = Member()
    }

    /// - Parameter now: nil where no rate is measured.
    mutating func move(_ slot: Int, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        progress.upload.add(transfer.upload, countedIn: &members[slot].upload)
        progress.download.add(transfer.download, countedIn: &members[slot].download)
        if let now { measure(at: now) }
        let fraction = max(members[slot].fraction, transfer.fractionOfMember)
        runningFraction += fraction - members[slot].fraction
        members[slot].fraction = fraction
        update()
    }

    /// Measures the rates, where bytes have moved since the last time.
    mutating func measure(at now: ContinuousClock.Instant) {
        if progress.upload.completedBytes != measured.upload { progress.upload.measure(with: &uploadRate, at: now) }
        if progress.download.completedBytes != measured.download {
            progress.download.measure(with: &downloadRate, at: now)
        }
        measured = (progress.upload.completedBytes, progress.download.completedBytes)
    }

    /// - Parameter slot: nil for what was never started.
    mutating func finish(_ slot: Int?, isSuccess: Bool) {
        if let slot {
            runningFraction -= members[slot].fraction
            // No more of it comes.
            progress.upload.end(&members[slot].upload)
            progress.download.end(&members[slot].download)
            members[slot] = Member()
        }
        progress.finishedCount += 1
        if !isSuccess { progress.failedCount += 1 }
        update()
    }

    /// Members that will never be made.
    mutating func skip(_ count: Int) {
        progress.finishedCount += count
        progress.failedCount += count
        progress.skippedCount += count
        update()
    }

    /// How many members there will be, as far as known.
    mutating func expect(_ total: Int?) {
        progress.totalCount = total
        update()
    }

    private mutating func update() {
        guard let total = progress.totalCount, total > 0 else { return }
        // Sums of fractions are not exact.
        let running = progress.finishedCount < total ? runningFraction : 0
        let done = (Double(progress.finishedCount) + running) / Double(total)
        progress.fractionCompleted = max(progress.fractionCompleted, min(1, done))
    }
}

extension ByteProgress {
    /// Counts what a member has moved.
    ///
    /// - Parameter counted: what of the member is in the sum; a body that starts again counts once it has passed where it was.
    fileprivate mutating func add(_ member: ByteProgress, countedIn counted: inout ByteProgress) {
        let bytes = max(counted.completedBytes, member.completedBytes)
        // Servers announce any number, and the sum is to stay one.
        let total = (member.totalBytes ?? counted.totalBytes).map { max(min($0, 1 << 46), bytes) }
        replace(&counted, by: ByteProgress(completedBytes: bytes, totalBytes: total))
    }

    /// Counts of a member what it has moved, and nothing that was announced.
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
    /// What an answer counts whose length is not known yet.
    private static var assumedBytes: Double { 64 * 1024 }

    /// The part of a batch's member that is done: what is sent and received of what there is to send and to receive.
    fileprivate var fractionOfMember: Double {
        let sent = Double(upload.totalBytes == nil ? 0 : upload.completedBytes)
        let toSend = Double(upload.totalBytes ?? 0)
        guard let total = download.totalBytes else { return sent / max(1, toSend + Self.assumedBytes) }
        let whole = toSend + Double(total)
        return whole > 0 ? min(1, (sent + Double(download.completedBytes)) / whole) : 1
    }
}
