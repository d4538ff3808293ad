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

    init(item: FetchItem) { self.item = item }

    /// Whether an attempt is under way, as far as has been told.
    var isUnderWay: Bool { begun > ended }

    mutating func begin(_ attempt: Int) -> FetchStep? {
        defer { begun = max(begun, attempt) }
        return begun == 0 ? .started : nil
    }

    mutating func end(_ record: AttemptRecord) -> FetchStep? {
        guard record.number > ended else { return nil }
        ended = record.number
        resumed.note(record.transfer, statusCode: record.statusCode)
        switch record.next {
        case .redirect(let target): return .redirected(statusCode: record.statusCode, to: target)
        case .retry(let delay):
            failedCount += 1
            return .retrying(
                attempt: failedCount, failure: record.failure, statusCode: record.statusCode, delay: delay)
        case .outcome, .intercepted, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: return nil
        }
    }
}
