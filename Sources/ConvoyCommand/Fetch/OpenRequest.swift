// One request of a run, from its start to its end.
import Convoy

/// What has been told of a request.
struct OpenRequest {
    let item: FetchItem
    /// The number of the last attempt that has begun, and of the last that led to another; redirects count.
    private var begun = 0
    private var ended = 0
    /// How many attempts have failed; redirects do not count.
    private var failedCount = 0
    /// What an earlier run had left, as the attempts that have ended tell.
    private(set) var resumed = ResumedBytes()
    /// The file's bytes as the last attempt that brought some of them left them.
    private(set) var heldBytes = ByteProgress()
    /// Of the answer to the attempt under way; nil until its head is there.
    var statusCode: Int?
    private var retry: RunningTransfer.Wait?

    init(item: FetchItem) { self.item = item }

    /// Whether an attempt has begun.
    var hasBegun: Bool { begun > 0 }
    /// Whether an attempt is under way, as far as has been told.
    private var isUnderWay: Bool { begun > ended }

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
        if attempt > ended { retry = nil }
        defer { begun = max(begun, attempt) }
        return begun == 0 ? .started : nil
    }

    mutating func end(_ record: AttemptRecord) -> FetchStep? {
        guard record.number > ended else { return nil }
        ended = record.number
        resumed.note(record.transfer, statusCode: record.statusCode)
        if let statusCode = record.statusCode, (200..<300).contains(statusCode) { heldBytes = record.transfer.download }
        switch record.next {
        case .redirect(let target): return .redirected(statusCode: record.statusCode, to: target)
        case .retry(let delay):
            failedCount += 1
            let cause = Words.cause(record)
            retry = .retry(attempt: failedCount, cause: cause, due: record.ended + delay)
            return .retrying(
                attempt: failedCount, failure: record.failure, statusCode: record.statusCode, cause: cause,
                delay: delay)
        case .outcome, .intercepted, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: return nil
        }
    }
}
