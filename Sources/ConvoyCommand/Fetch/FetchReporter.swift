// Passes the results of a run to its report.
import Convoy
import Foundation

/// Passes the results and the progress of a run to its report.
///
/// Also computes the summary of the run. ``OpenRequests`` reports the steps, and makes all calls of the report in turn.
final class FetchReporter: Sendable {
    let requests: OpenRequests
    private let report: any FetchReport
    private let parts: PartFinder?
    /// The data for `--report`; nil without it.
    private let kept: Locked<Report>?
    private let jobs: Int
    private let perHost: Int
    private let secrets: Set<String>
    private let summary: Locked<FetchSummary>

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
        requests = OpenRequests(onStep: report.wantsSteps ? report.happened : nil)
        (self.report, self.parts, self.kept) = (report, parts, kept)
        (self.jobs, self.perHost, self.secrets) = (jobs, perHost, secrets)
        self.summary = Locked(summary)
    }

    /// Records the item of a request, before the request is sent.
    func opened(_ item: FetchItem) { requests.begin(item, hiding: secrets) }

    /// Reports the end of a request, once.
    ///
    /// - Parameter isStopping: whether the run is being stopped.
    func finished<Value>(_ index: Int, _ result: Result<Response<Value>, RequestError>, isStopping: Bool) {
        let attempts = result.attempts()
        requests.close(index, attempts) { request in
            guard let request else { return }
            var outcome = FetchOutcome(
                item: request.item, result: result.map { FetchOutcome.Success($0, attempts, of: request.item) },
                attempts: attempts,
                span: EventSpan(queued: request.opened, (try? result.get())?.timings, attempts))
            outcome.keptBytes = keptBytes(of: outcome)
            outcome.secrets = result.sentSecrets(in: attempts, and: secrets)
            summary.withLock { [outcome] in $0.count(outcome, isStopping: isStopping) }
            kept?.withLock { [outcome] in $0.add(EventLine(outcome, directory: nil)) }
            // Cancelled requests get no line, because hundreds would hide the line with the reason.
            if !(isStopping && outcome.isCancelled && !report.wantsCancelled) { report.finished(outcome) }
        }
    }

    /// Reports an entry of a list that did not become a request.
    ///
    /// The entry counts as a failure.
    func isDefective(_ defect: FetchItems.Defect) {
        requests.inTurn {
            summary.withLock { $0.countFailure(defect.code) }
            report.isDefective(defect)
            kept?.withLock { $0.add(EventLine(defect)) }
        }
    }

    /// Reports the progress.
    func tick(_ progress: RunProgress, _ operations: [AnyRequestOperation]) {
        tick(progress) { transfers(of: operations) }
    }

    func tick(_ progress: RunProgress, _ transfers: () -> [RunningTransfer]) {
        requests.inTurn {
            let running = transfers()
            report.tick(summary.withLock { $0 }.progress(progress, running), running)
        }
    }

    /// Reports the final statistics.
    ///
    /// This is the last call.
    ///
    /// - Parameter reason: why the run was stopped; nil if it was not stopped.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        requests.inTurn {
            let hasLost = summary.withLock { $0.failedCount + $0.cancelledCount > 0 }
            let others = parts.flatMap { $0.knowsNames || !hasLost ? nil : $0.allOfThisRun() }
            let summary = summary.withLock { summary in
                (summary.time, summary.reason) = (time, reason)
                if let others { summary.kept = others }
                return summary
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

    /// The started requests in the order of `operations`, including requests that wait for a retry.
    ///
    /// Requests that wait only for the limit of their host follow, as many as there are free jobs.
    private func transfers(of operations: [AnyRequestOperation]) -> [RunningTransfer] {
        let (running, others) = requests.transfers(of: operations)
        guard running.count < jobs else { return running }
        let busy = running.reduce(into: [:]) { $0[$1.item.host, default: 0] += 1 }
        let waiting = others.lazy.filter { [perHost] in busy[$0.host, default: 0] >= perHost }
        return running
            + waiting.prefix(jobs - running.count).map {
                RunningTransfer(item: $0, receivedBytes: 0, expectedBytes: nil, wait: .host)
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
    func sentSecrets(in attempts: [AttemptRecord], and others: @autoclosure () -> Set<String>) -> SentSecrets {
        if case .success = self, attempts.count < 2 { return SentSecrets([]) }
        return SentSecrets(of: attempts.map(\.request), and: others())
    }
}

extension FetchItem {
    /// The host and the explicit port of the URL.
    ///
    /// The limit for each host also distinguishes schemes.
    fileprivate var host: String { "\(url.host() ?? "") \(url.port ?? 0)" }
}
