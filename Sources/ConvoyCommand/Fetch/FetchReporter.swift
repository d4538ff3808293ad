// From what a run does to its report.
import Convoy
import Foundation

/// Tells a report what happens to each request in order, its start, what led to further attempts, its end; and sums up.
///
/// A manager tells of the end on another queue than of everything before, which may come late. What has not been told
/// by then is told with the end, from the records of the attempts.
///
/// ## Concurrency
/// Use it from any thread, but not from the report. One queue makes every call of the report, one after the other, with
/// no lock held. Starts and retries only stand in line there; all else waits until it has been told, so that a reader
/// who does not read holds the run up, and no more stands in line than belongs to the open requests.
final class FetchReporter: EventMonitor {
    private struct State {
        /// The requests whose end has not been told.
        var open: [Int: OpenRequest] = [:]
        var summary: FetchSummary
    }

    private let report: any FetchReport
    private let queue = DispatchQueue(label: "convoy.report")
    private let state: Locked<State>

    init(report: any FetchReport, discards: Bool) {
        self.report = report
        state = Locked(State(summary: FetchSummary(discards: discards)))
    }

    /// Notes what a request is for; before it is sent.
    func opened(_ item: FetchItem) { state.withLock { $0.open[item.index] = OpenRequest(item: item) } }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.fetchIndex else { return }
        switch event {
        case .started(let attempt): queue.async { self.tell(index) { $0.begin(attempt) } }
        case .attemptEnded(let record): queue.async { self.tell(index) { $0.end(record) } }
        default: break
        }
    }

    /// Tells of the end of a request, once.
    ///
    /// - Parameter isStopping: whether everything is being cancelled.
    func finished<Value>(_ index: Int, _ result: Result<Response<Value>, RequestError>, isStopping: Bool) {
        queue.sync {
            let attempts = result.attempts()
            if report.wantsSteps, let first = attempts.first {
                tell(index) { $0.begin(first.number) }
                for record in attempts where record.next != .outcome { tell(index) { $0.end(record) } }
            }
            let outcome: FetchOutcome? = state.withLock { state in
                guard let item = state.open.removeValue(forKey: index)?.item else { return nil }
                let outcome = FetchOutcome(
                    item: item, result: result.map(FetchOutcome.Success.init), attempts: attempts)
                state.summary.count(outcome, isStopping: isStopping)
                return outcome
            }
            guard let outcome else { return }
            // Hundreds of lines that say "cancelled" would hide the one that says why.
            if !(isStopping && outcome.isCancelled && !report.wantsCancelled) { report.finished(outcome) }
        }
    }

    /// Tells of something in the list that did not become a request; it counts as a failure.
    func isDefective(_ defect: FetchItems.Defect) {
        queue.sync {
            state.withLock { $0.summary.failedCount += 1 }
            report.isDefective(defect)
        }
    }

    /// Tells how far everything is.
    func tick(_ progress: RunProgress, _ operations: [AnyRequestOperation]) {
        queue.sync { report.tick(progress, transfers(of: operations)) }
    }

    /// Tells the figures of the whole; the last call.
    ///
    /// - Parameter reason: why everything was cancelled; nil when nothing was.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        queue.sync {
            let summary = state.withLock { state in
                (state.summary.time, state.summary.reason) = (time, reason)
                return state.summary
            }
            report.ended(summary)
            return summary.status
        }
    }

    /// Tells of a step, if it is one that has not been told and the request is open.
    private func tell(_ index: Int, note: (inout OpenRequest) -> FetchStep?) {
        let (step, item) = state.withLock { state -> (FetchStep?, FetchItem?) in
            guard var request = state.open[index] else { return (nil, nil) }
            defer { state.open[index] = request }
            return (note(&request), request.item)
        }
        if let step, let item { report.happened(step, to: item) }
    }

    /// The transfers under way, the first of them first; what waits for a retry is not.
    private func transfers(of operations: [AnyRequestOperation]) -> [RunningTransfer] {
        let indices = operations.map { $0.fetchIndex ?? -1 }
        let items = state.withLock { state in
            indices.map { index in state.open[index].flatMap { $0.isUnderWay ? $0.item : nil } }
        }
        return zip(operations, items).compactMap { operation, item in
            guard let item else { return nil }
            let progress = operation.progress
            return RunningTransfer(
                item: item, receivedBytes: progress.receivedBytes, expectedBytes: progress.expectedBytes)
        }
    }
}

/// What has been told of a request.
private struct OpenRequest {
    let item: FetchItem
    /// The number of the last attempt that has begun, and of the last that led to another; redirects count.
    private var begun = 0
    private var ended = 0
    /// How many attempts have failed; redirects do not count.
    private var failedCount = 0

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
        switch record.next {
        case .redirect(let target): return .redirected(statusCode: record.statusCode, to: target)
        case .retry(let delay):
            failedCount += 1
            return .retrying(
                attempt: failedCount, failure: record.failure, statusCode: record.statusCode, delay: delay)
        case .outcome, .intercepted, .suspended, .startOver: return nil
        }
    }
}

extension Result {
    /// What became of each attempt; empty when nothing was sent.
    fileprivate func attempts<Value>() -> [AttemptRecord] where Success == Response<Value>, Failure == RequestError {
        switch self {
        case .success(let response): response.attempts
        case .failure(let error): error.attempts
        }
    }
}

extension AnyRequestOperation {
    /// The index of its item.
    fileprivate var fetchIndex: Int? { tags.first.flatMap { Int($0) } }
}
