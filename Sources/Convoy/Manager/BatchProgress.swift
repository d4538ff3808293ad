// How far a batch is.

/// The progress of a batch, byte by byte.
public struct BatchProgress: Sendable, Hashable {
    /// Members that have finished, whatever their outcome.
    public internal(set) var finishedCount = 0
    /// Members that have finished without success.
    public internal(set) var failedCount = 0
    /// Members there will be; nil while the source may still give more than it has told.
    public internal(set) var totalCount: Int?
    /// Body bytes received by all members.
    ///
    /// Never runs backwards, also when a member's body starts again.
    public internal(set) var receivedBytes: Int64 = 0
    /// The part that is done, 0 to 1: each member counts the same, a running one by its bytes.
    ///
    /// Never runs backwards.
    public internal(set) var fractionCompleted = 0.0
}

/// Adds the members' progress up: a value, without lock.
struct BatchMeter {
    private struct Member {
        var receivedBytes: Int64 = 0
        var fraction = 0.0
    }

    private(set) var progress = BatchProgress()
    private var running: [BatchMember: Member] = [:]
    private var runningFraction = 0.0

    mutating func start(_ member: BatchMember) {
        running[member] = Member()
    }

    mutating func move(_ key: BatchMember, _ transfer: TransferProgress) {
        guard var member = running[key] else { return }
        // A body that starts again counts once it has passed where it was.
        progress.receivedBytes += max(0, transfer.receivedBytes - member.receivedBytes)
        member.receivedBytes = max(member.receivedBytes, transfer.receivedBytes)
        let fraction = max(member.fraction, transfer.fractionCompleted ?? 0)
        runningFraction += fraction - member.fraction
        member.fraction = fraction
        running[key] = member
        update()
    }

    mutating func finish(_ key: BatchMember, isSuccess: Bool) {
        if let member = running.removeValue(forKey: key) { runningFraction -= member.fraction }
        if running.isEmpty { runningFraction = 0 }
        progress.finishedCount += 1
        if !isSuccess { progress.failedCount += 1 }
        update()
    }

    /// Members that will never be made.
    mutating func skip(_ count: Int) {
        progress.finishedCount += count
        progress.failedCount += count
        update()
    }

    /// How many members there will be, as far as known.
    mutating func expect(_ total: Int?) {
        progress.totalCount = total
        update()
    }

    private mutating func update() {
        guard let total = progress.totalCount, total > 0 else { return }
        let done = (Double(progress.finishedCount) + runningFraction) / Double(total)
        progress.fractionCompleted = max(progress.fractionCompleted, min(1, done))
    }
}
