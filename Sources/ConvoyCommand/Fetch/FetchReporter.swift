// Passes the events of a run to its report.
import Convoy
import Foundation

/// Passes the events of each request to a report in order: its start, further attempts and its end.
///
/// Also computes the summary of the run.
///
/// A manager reports the end on another queue than the earlier events, which may arrive after the end. The reporter
/// therefore derives missing events from the attempt records at the end.
///
/// ## Concurrency
/// Safe to use from any thread, except from a call of the report. One queue makes all calls of the report in order,
/// without a lock. Starts and retries are queued asynchronously. `finished`, `isDefective`, `tick` and `ended` return
/// after the report was called. A slow reader of the output therefore slows the run, and the queue is bounded by the
/// open requests.
final class FetchReporter: EventMonitor {
    private struct State {
        /// The requests whose end was not reported.
        var open: [Int: OpenRequest] = [:]
        var summary: FetchSummary
    }

    private let report: any FetchReport
    private let parts: PartFinder?
    /// The data for `--report`; nil without it.
    private let kept: Locked<Report>?
    private let jobs: Int
    private let perHost: Int
    private let secrets: Set<String>
    private let queue = DispatchQueue(label: "convoy.report")
    private let state: Locked<State>

    /// - Parameters:
    ///   - summary: the statistics known before the start of the run.
    ///   - parts: finds the part files of failed downloads; nil if no files are written.
    ///   - kept: stores every result for the page of `--report`; nil without one.
    ///   - jobs: the maximum number of concurrent requests.
    ///   - perHost: the maximum number of concurrent requests for one host.
    ///   - secrets: secrets that no event may show, besides those of the requests.
    init(
        report: any FetchReport, summary: FetchSummary = FetchSummary(), parts: PartFinder? = nil,
        kept: Locked<Report>? = nil, jobs: Int = FetchOptions.defaultJobs, perHost: Int = FetchOptions.defaultPerHost,
        hiding secrets: Set<String> = []
    ) {
        self.report = report
        self.parts = parts
        self.kept = kept
        (self.jobs, self.perHost, self.secrets) = (jobs, perHost, secrets)
        state = Locked(State(summary: summary))
    }

    /// Records the item of a request, before the request is sent.
    func opened(_ item: FetchItem) { state.withLock { $0.open[item.index] = OpenRequest(item: item, hiding: secrets) } }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.fetchIndex else { return }
        switch event {
        case .started(let attempt):
            answered(index, nil)
            queue.async { self.tell(index) { $0.begin(attempt) } }
        case .response(let head): answered(index, head.statusCode)
        case .attemptEnded(let record): queue.async { self.tell(index) { $0.end(record) } }
        default: break
        }
    }

    /// Reports the end of a request, once.
    ///
    /// - Parameter isStopping: whether the run is being stopped.
    func finished<Value>(_ index: Int, _ result: Result<Response<Value>, RequestError>, isStopping: Bool) {
        queue.sync {
            let attempts = result.attempts()
            if report.wantsSteps, let first = attempts.first {
                tell(index) { $0.begin(first.number) }
                for record in attempts where record.next != .outcome { tell(index) { $0.end(record) } }
            }
            guard let request = state.withLock({ $0.open.removeValue(forKey: index) }) else { return }
            var outcome = FetchOutcome(
                item: request.item, result: result.map { FetchOutcome.Success($0, attempts, of: request.item) },
                attempts: attempts,
                span: EventSpan(queued: request.opened, (try? result.get())?.timings, attempts))
            outcome.keptBytes = keptBytes(of: outcome)
            outcome.secrets = result.sentSecrets(in: attempts, and: secrets)
            state.withLock { [outcome] in $0.summary.count(outcome, isStopping: isStopping) }
            kept?.withLock { [outcome] in $0.add(EventLine(outcome, directory: nil)) }
            // Cancelled requests get no line, because hundreds would hide the line with the reason.
            if !(isStopping && outcome.isCancelled && !report.wantsCancelled) { report.finished(outcome) }
        }
    }

    /// Reports an entry of a list that did not become a request.
    ///
    /// The entry counts as a failure.
    func isDefective(_ defect: FetchItems.Defect) {
        queue.sync {
            state.withLock { $0.summary.countFailure(defect.code) }
            report.isDefective(defect)
            kept?.withLock { $0.add(EventLine(defect)) }
        }
    }

    /// Reports the progress.
    func tick(_ progress: RunProgress, _ operations: [AnyRequestOperation]) {
        tick(progress) { transfers(of: operations) }
    }

    func tick(_ progress: RunProgress, _ transfers: () -> [RunningTransfer]) {
        queue.sync {
            let running = transfers()
            var progress = progress
            let summary = state.withLock { $0.summary }
            (progress.skippedCount, progress.savedCount) = (summary.skippedCount, summary.succeededCount)
            progress.savedBytes = summary.bytes + summary.resumedBytes
            progress.receivedBytes = running.reduce(progress.savedBytes) { $0 &+ $1.receivedBytes }
            progress.resumedBytes = running.reduce(summary.resumedBytes) { $0 &+ $1.resumedBytes }
            report.tick(progress, running)
        }
    }

    /// Reports the final statistics.
    ///
    /// This is the last call.
    ///
    /// - Parameter reason: why the run was stopped; nil if it was not stopped.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        queue.sync {
            let hasLost = state.withLock { $0.summary.failedCount + $0.summary.cancelledCount > 0 }
            let others = parts.flatMap { $0.knowsNames || !hasLost ? nil : $0.allOfThisRun() }
            let summary = state.withLock { state in
                (state.summary.time, state.summary.reason) = (time, reason)
                if let others { state.summary.kept = others }
                return state.summary
            }
            report.ended(summary)
            return summary.status
        }
    }

    /// The bytes of a failed download that the next run can resume.
    ///
    /// Nil if another process uses the part file, or if the next run would fail again.
    private func keptBytes(of outcome: FetchOutcome) -> Int64? {
        guard case .failure(let error) = outcome.result,
            ![.destinationInUse, .destinationExists].contains(error.code)
        else { return nil }
        return parts?.keptBytes(of: outcome.item)
    }

    /// Records the status of the response to the running attempt of a request.
    private func answered(_ index: Int, _ statusCode: Int?) {
        state.withLock { $0.open[index]?.statusCode = statusCode }
    }

    /// Reports a step if it is new and the request is open.
    private func tell(_ index: Int, note: (inout OpenRequest) -> FetchStep?) {
        let (step, item) = state.withLock { state -> (FetchStep?, FetchItem?) in
            guard var request = state.open[index] else { return (nil, nil) }
            defer { state.open[index] = request }
            return (note(&request), request.item)
        }
        if let step, let item { report.happened(step, to: item) }
    }

    /// The started requests in the order of `operations`, including requests that wait for a retry.
    ///
    /// Requests that wait only for the limit of their host follow, as many as there are free jobs.
    private func transfers(of operations: [AnyRequestOperation]) -> [RunningTransfer] {
        let indices = operations.map { $0.fetchIndex ?? -1 }
        let requests = state.withLock { state in indices.map { state.open[$0] } }
        let running = zip(operations, requests).compactMap { $1?.transfer($0.progress) }
        guard running.count < jobs else { return running }
        let busy = running.reduce(into: [:]) { $0[$1.item.host, default: 0] += 1 }
        let waiting = requests.lazy.compactMap { $0 }.filter { [perHost] in
            !$0.hasBegun && busy[$0.item.host, default: 0] >= perHost
        }
        return running
            + waiting.prefix(jobs - running.count).map {
                RunningTransfer(item: $0.item, receivedBytes: 0, expectedBytes: nil, wait: .host)
            }
    }
}

extension Result {
    /// The records of the attempts; empty when nothing was sent, and after a successful segmented download.
    func attempts<Value>() -> [AttemptRecord] where Success == Response<Value>, Failure == RequestError {
        switch self {
        case .success(let response): response.attempts
        case .failure(let error): error.attempts
        }
    }

    /// The secrets that texts of the server may repeat.
    ///
    /// Empty after a success of the first attempt, because no text of its server is shown.
    ///
    /// - Parameter attempts: the records of the attempts, which a response makes each time they are read.
    func sentSecrets(in attempts: [AttemptRecord], and others: Set<String>) -> SentSecrets {
        if case .success = self, attempts.count < 2 { return SentSecrets([]) }
        return SentSecrets(of: attempts.map(\.request), and: others)
    }
}

extension FetchItem {
    /// The host and the explicit port of the URL.
    ///
    /// The limit for each host also distinguishes schemes.
    fileprivate var host: String { "\(url.host() ?? "") \(url.port ?? 0)" }
}

extension AnyRequestOperation {
    /// The index of the item, which is the first tag.
    fileprivate var fetchIndex: Int? { tags.first.flatMap { Int($0) } }
}
