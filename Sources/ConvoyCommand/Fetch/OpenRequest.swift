// The state of a request in a run, from its start to its end.
import Convoy

/// The reported state of a request.
struct OpenRequest {
    let item: FetchItem
    /// When the request was queued.
    let opened = ContinuousClock.now
    private var steps: ReportedSteps
    /// The bytes of an earlier run, according to the attempts that have ended.
    private(set) var resumed = ResumedBytes()
    /// The progress of the file at the end of the last attempt with a successful response.
    private(set) var heldBytes = ByteProgress()
    /// The status of the response to the running attempt; nil before the head of the response arrives.
    var statusCode: Int?
    private var retry: RunningTransfer.Wait?

    /// - Parameter secrets: secrets that no step may show, besides those of the attempts.
    init(item: FetchItem, hiding secrets: Set<String>) {
        self.item = item
        steps = ReportedSteps(hiding: secrets)
    }

    /// Whether an attempt has started.
    var hasBegun: Bool { steps.begun > 0 }
    /// Whether an attempt is running, as far as reported.
    private var isUnderWay: Bool { steps.begun > steps.ended }

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
