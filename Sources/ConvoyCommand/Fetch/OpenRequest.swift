// The state of a request in a run, from its start to its end.
import Convoy

/// The reported state of a request.
struct OpenRequest {
    let item: FetchItem
    /// When the request was queued.
    let opened = ContinuousClock.now
    /// The numbers of the last attempt that started and of the last that ended, including redirects.
    private var (begun, ended) = (0, 0)
    /// The number of attempts that were followed by a retry.
    private var failedCount = 0
    private let secrets: Set<String>
    /// The bytes of an earlier run, according to the attempts that have ended.
    private(set) var resumed = ResumedBytes()
    /// The progress of the file at the end of the last attempt with a successful response.
    private(set) var heldBytes = ByteProgress()
    /// The status of the response to the running attempt; nil before the head of the response arrives.
    var statusCode: Int?
    private var retry: RunningTransfer.Wait?

    /// - Parameter secrets: values that no step may show.
    init(item: FetchItem, hiding secrets: Set<String>) {
        self.item = item
        self.secrets = secrets
    }

    var hasBegun: Bool { begun > 0 }
    /// Whether an attempt is running, according to the events that have arrived.
    private var isUnderWay: Bool { begun > ended }

    /// The progress of the file; nil before the first attempt.
    ///
    /// - Parameter progress: the progress of the operation. It is used only during a successful response, because the
    ///   operation also counts the body of a failure.
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

    /// Notes the start of an attempt; a late or repeated start has no effect.
    ///
    /// - Returns: `.started` for the first start; nil for any other.
    mutating func begin(_ attempt: Int) -> FetchStep? {
        if attempt > ended { retry = nil }
        defer { begun = max(begun, attempt) }
        return begun == 0 ? .started : nil
    }

    /// Notes the end of an attempt; a late or repeated end has no effect.
    mutating func end(_ record: AttemptRecord) -> FetchStep? {
        guard record.number > ended else { return nil }
        ended = record.number
        resumed.note(record.transfer, statusCode: record.statusCode)
        if let statusCode = record.statusCode, (200..<300).contains(statusCode) { heldBytes = record.transfer.download }
        switch record.next {
        case .redirect(let target):
            return .redirected(statusCode: record.statusCode, to: target.redactedString.hiding(secrets))
        case .retry(let delay):
            failedCount += 1
            let cause = Words.cause(record).hiding(secrets)
            retry = .retry(attempt: failedCount, cause: cause, due: record.ended + delay)
            return .retrying(
                attempt: failedCount, failure: record.failure, statusCode: record.statusCode, cause: cause,
                delay: delay)
        case .outcome, .intercepted, .suspended, .startOver, .awaitedDescriptor: return nil
        }
    }
}
