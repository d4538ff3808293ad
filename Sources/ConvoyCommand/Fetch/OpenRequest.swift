// One request of a run, from its start to its end.
import Convoy

/// What has been told of a request.
struct OpenRequest {
    let item: FetchItem
    /// When it was taken.
    let opened = ContinuousClock.now
    private var steps = ToldSteps()
    /// What an earlier run had left, as the attempts that have ended tell.
    private(set) var resumed = ResumedBytes()
    /// The file's bytes as the last attempt that brought some of them left them.
    private(set) var heldBytes = ByteProgress()
    /// Of the answer to the attempt under way; nil until its head is there.
    var statusCode: Int?
    private var retry: RunningTransfer.Wait?

    init(item: FetchItem) { self.item = item }

    /// Whether an attempt has begun.
    var hasBegun: Bool { steps.begun > 0 }
    /// Whether an attempt is under way, as far as has been told.
    private var isUnderWay: Bool { steps.begun > steps.ended }

    /// How far the file is; nil before the first attempt.
    ///
    /// The operation counts the body of a refusal, and goes on telling that count until the next answer.
    func transfer(_ progress: TransferProgress) -> RunningTransfer? {
        guard hasBegun else { return nil }
        guard isUnderWay, let statusCode, (200..<300).contains(statusCode) else {
            return RunningTransfer(
                item: item, receivedBytes: heldBytes.completedBytes, resumedBytes: resumed.count,
                expectedBytes: heldBytes.totalBytes, wait: isUnderWay ? .answer : retry ?? .answer)
        }
        var resumed = resumed
        resumed.note(progress)
        return RunningTransfer(
            item: item, receivedBytes: progress.download.completedBytes, resumedBytes: resumed.count,
            expectedBytes: progress.download.totalBytes)
    }

    mutating func begin(_ attempt: Int) -> FetchStep? {
        if attempt > steps.ended { retry = nil }
        return steps.begin(attempt)
    }

    mutating func end(_ record: AttemptRecord) -> FetchStep? {
        guard record.number > steps.ended else { return nil }
        resumed.note(record.transfer, statusCode: record.statusCode)
        if let statusCode = record.statusCode, (200..<300).contains(statusCode) { heldBytes = record.transfer.download }
        let step = steps.end(record)
        if case .retrying(let attempt, _, _, let cause, let delay)? = step {
            retry = .retry(attempt: attempt, cause: cause, due: record.ended + delay)
        }
        return step
    }
}
