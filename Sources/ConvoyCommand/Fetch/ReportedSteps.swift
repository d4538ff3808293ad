// Which steps of a request have been reported.
import Convoy

/// Converts starts and ends of attempts to steps, each reported once.
///
/// Late or repeated starts and ends are ignored.
struct ReportedSteps {
    /// The numbers of the last attempt that started and of the last that ended, including redirects.
    private(set) var begun = 0
    private(set) var ended = 0
    /// The number of attempts that were followed by a retry.
    private var failedCount = 0
    /// The secrets of the run, and those that the ended attempts have sent.
    private var secrets: Set<String>

    init(hiding secrets: Set<String>) { self.secrets = secrets }

    mutating func begin(_ attempt: Int) -> FetchStep? {
        defer { begun = max(begun, attempt) }
        return begun == 0 ? .started : nil
    }

    mutating func end(_ record: AttemptRecord) -> FetchStep? {
        guard record.number > ended else { return nil }
        ended = record.number
        secrets.formUnion(record.request.repeatedSecrets)
        switch record.next {
        case .redirect(let target):
            return .redirected(statusCode: record.statusCode, to: SentSecrets(secrets).shown(target))
        case .retry(let delay):
            failedCount += 1
            return .retrying(
                attempt: failedCount, failure: record.failure, statusCode: record.statusCode,
                cause: SentSecrets(secrets).hidden(in: Words.cause(record)), delay: delay)
        case .outcome, .intercepted, .suspended, .startOver, .awaitedDescriptor, .awaitedConnectivity: return nil
        }
    }
}
