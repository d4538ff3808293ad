// Passes the results of a run to its report.
import Convoy
import Foundation

/// Passes the results and the progress of a run to its report.
///
/// It also computes the summary of the run. ``OpenRequests`` reports the steps, and makes one call of the report at a
/// time.
final class FetchReporter: Sendable {
    let requests: OpenRequests
    private let report: any FetchReport
    private let options: FetchOptions
    private let setup: FetchSetup?
    /// Finds the part files of failed downloads; nil if no files are written.
    private let parts: PartFinder?
    private let summary: Locked<FetchSummary>

    /// - Parameter setup: its `--report` page and its ``FetchRecords`` also receive the results.
    init(report: any FetchReport, _ options: FetchOptions = FetchOptions(), _ setup: FetchSetup? = nil) {
        requests = OpenRequests(onStep: report.wantsSteps ? report.happened : nil)
        (self.report, self.options, self.setup) = (report, options, setup)
        parts = setup == nil || options.discards ? nil : PartFinder(options)
        summary = Locked(FetchSummary(options))
    }

    /// Records the item of a request, before the request is sent.
    func opened(_ item: FetchItem) { requests.begin(item) }

    /// Reports the end of a request, once.
    ///
    /// - Parameters:
    ///   - unchanged: the success that replaces a failure, if the only cause is that the server has nothing newer;
    ///     otherwise nil.
    ///   - stop: why the run is being stopped; nil if it is not.
    func finished<Value>(
        _ index: Int, _ result: Result<Response<Value>, RequestError>, _ unchanged: Response<UnchangedResource>? = nil,
        stop: ExitStatus?
    ) {
        requests.close(index, result.attempts()) { request in
            guard let request else { return }
            let (item, attempts) = (request.item, result.attempts())
            var ended = result.map { FetchOutcome.Success($0, attempts, of: item) }
            if let unchanged { ended = .success(FetchOutcome.Success(unchanged, attempts, of: item)) }
            var outcome = FetchOutcome(
                item: item, result: ended, attempts: attempts,
                span: EventSpan(queued: request.opened, (try? result.get())?.timings, attempts))
            outcome.keptBytes = keptBytes(of: outcome)
            outcome.output =
                options.discards ? options.paths.last { $0 != "-" } ?? "" : options.path(of: outcome.fileName)
            summary.withLock { [outcome] in $0.count(outcome, isStopping: stop != nil) }
            setup?.report?.withLock { [outcome] in $0.add(EventLine(outcome, directory: nil)) }
            // A stopped run may cancel hundreds of requests. Their lines would hide the line that says why the run
            // stopped. After standard output was closed, nothing is reported, as by other programs in a pipeline.
            let isUnwanted = stop != nil && outcome.isCancelled && !report.wantsCancelled
            if !isUnwanted, stop != .outputClosed { report.finished(outcome) }
            setup?.records.finished(outcome, (try? result.get().value) as? Data)
        }
    }

    /// Reports an entry of a list that did not become a request.
    ///
    /// The entry counts as a failure.
    func isDefective(_ defect: FetchItems.Defect) {
        requests.inTurn {
            summary.withLock { $0.countFailure(defect.code, "\(defect.place): \(defect.reason)") }
            report.isDefective(defect)
            setup?.records.isDefective(defect)
            setup?.report?.withLock { $0.add(EventLine(defect)) }
        }
    }

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
        // The batch reports no result for items that it read and never sent, so they are still open.
        for item in requests.items { setup?.records.isLost(item) }
        return requests.inTurn {
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
    /// Nil if another process uses the part file. Also nil if the file exists, because the next run would fail again.
    private func keptBytes(of outcome: FetchOutcome) -> Int64? {
        guard let error = outcome.error, ![.destinationInUse, .destinationExists].contains(error.code) else {
            return nil
        }
        return parts?.keptBytes(of: outcome.item)
    }

    /// The started requests in the order of `operations`, including requests that wait for a retry.
    ///
    /// Requests that wait only for the limit of their host follow, as many as there are free jobs.
    private func transfers(of operations: [AnyRequestOperation]) -> [RunningTransfer] {
        let (running, others) = requests.transfers(of: operations)
        guard running.count < options.jobs else { return running }
        let busy = running.reduce(into: [:]) { $0[$1.item.host, default: 0] += 1 }
        let waiting = others.lazy.filter { [options] in busy[$0.host, default: 0] >= options.perHost }
        return running
            + waiting.prefix(options.jobs - running.count).map {
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

    /// The time from the start of the first attempt to the end of the last; zero when nothing was sent.
    func executed<Value>() -> Duration where Success == Response<Value>, Failure == RequestError {
        if case .success(let response) = self { return response.timings.executed ?? .zero }
        let attempts = attempts()
        return attempts.first.flatMap { first in attempts.last.map { $0.ended - first.started } } ?? .zero
    }
}

extension FetchItem {
    /// The host and the explicit port of the URL.
    ///
    /// The limit for each host also distinguishes schemes; this text does not.
    fileprivate var host: String { "\(url.host() ?? "") \(url.port ?? 0)" }
}
