import Convoy
import Foundation

final class FetchReporter: Sendable {
    let requests: OpenRequests
    private let report: any FetchReport
    private let options: FetchOptions
    private let setup: FetchSetup?
    private let parts: PartFinder?
    private let summary: Locked<FetchSummary>

    init(report: any FetchReport, _ options: FetchOptions = FetchOptions(), _ setup: FetchSetup? = nil) {
        requests = OpenRequests(onStep: report.wantsSteps ? report.happened : nil)
        (self.report, self.options, self.setup) = (report, options, setup)
        parts = setup == nil || options.discards ? nil : PartFinder(options)
        summary = Locked(FetchSummary(options))
    }

    func opened(_ item: FetchItem) { requests.begin(item) }

    /// `unchanged` is the success that replaces a failure, if the only cause is that the server has nothing newer.
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
            // The lines of hundreds of cancelled requests would hide why the run stopped. Nothing is reported after
            // standard output was closed, as by other programs in a pipeline.
            let isUnwanted = stop != nil && outcome.isCancelled && !report.wantsCancelled
            if !isUnwanted, stop != .outputClosed { report.finished(outcome) }
            setup?.records.finished(outcome, (try? result.get().value) as? Data)
        }
    }

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

    // Nil if another process uses the part file. Also nil if the file exists, because the next run would fail again.
    private func keptBytes(of outcome: FetchOutcome) -> Int64? {
        guard let error = outcome.error, ![.destinationInUse, .destinationExists].contains(error.code) else {
            return nil
        }
        return parts?.keptBytes(of: outcome.item)
    }

    // Requests that wait only for the limit of their host follow, as many as there are free jobs.
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
    func attempts<Value>() -> [AttemptRecord] where Success == Response<Value>, Failure == RequestError {
        switch self {
        case .success(let response): response.attempts
        case .failure(let error): error.attempts
        }
    }

    func executed<Value>() -> Duration where Success == Response<Value>, Failure == RequestError {
        if case .success(let response) = self { return response.timings.executed ?? .zero }
        let attempts = attempts()
        return attempts.first.flatMap { first in attempts.last.map { $0.ended - first.started } } ?? .zero
    }
}

extension FetchItem {
    // The limit for each host also distinguishes schemes; this text does not.
    fileprivate var host: String { "\(url.host() ?? "") \(url.port ?? 0)" }
}

// A manager reports the end of a request on another queue than the earlier events, which may arrive after the end.
// Therefore ``close(_:_:_:)`` derives missing steps from the attempt records.
// Safe to use from any thread, except from a report. One queue makes all reports in order. `close` and `inTurn` return
// after the report, so a slow reader of the output slows the run.
final class OpenRequests: EventMonitor {
    private let onStep: (@Sendable (FetchStep, FetchItem) -> Void)?
    private let queue = DispatchQueue(label: "convoy.report")
    private let open = Locked<[Int: OpenRequest]>([:])

    init(onStep: (@Sendable (FetchStep, FetchItem) -> Void)?) { self.onStep = onStep }

    func begin(_ item: FetchItem, hiding secrets: Set<String> = []) {
        open.withLock { $0[item.index] = OpenRequest(item: item, hiding: secrets) }
    }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.itemIndex else { return }
        switch event {
        case .started(let attempt):
            answered(index, nil)
            queue.async { self.report(index) { $0.begin(attempt) } }
        case .response(let head): answered(index, head.statusCode)
        case .attemptEnded(let record): queue.async { self.report(index) { $0.end(record) } }
        default: break
        }
    }

    func close<Value>(
        _ index: Int, _ attempts: @autoclosure () -> [AttemptRecord], _ end: (OpenRequest?) -> Value
    ) -> Value {
        queue.sync {
            if onStep != nil {
                let attempts = attempts()
                if let first = attempts.first { report(index) { $0.begin(first.number) } }
                for record in attempts where record.next != .outcome { report(index) { $0.end(record) } }
            }
            return end(open.withLock { $0.removeValue(forKey: index) })
        }
    }

    var items: [FetchItem] { open.withLock { $0.values.map(\.item) } }

    func inTurn<Value>(_ report: () -> Value) -> Value { queue.sync(execute: report) }

    func transfers(of operations: [AnyRequestOperation]) -> (started: [RunningTransfer], others: [FetchItem]) {
        let indices = operations.map { $0.itemIndex ?? -1 }
        let requests = open.withLock { open in indices.map { open[$0] } }
        let started = zip(operations, requests).compactMap { $1?.transfer($0.progress) }
        return (started, requests.compactMap { $0 }.filter { !$0.hasBegun }.map(\.item))
    }

    private func answered(_ index: Int, _ statusCode: Int?) { open.withLock { $0[index]?.statusCode = statusCode } }

    private func report(_ index: Int, _ note: (inout OpenRequest) -> FetchStep?) {
        let (step, item) = open.withLock { open -> (FetchStep?, FetchItem?) in
            guard var request = open[index] else { return (nil, nil) }
            defer { open[index] = request }
            return (note(&request), request.item)
        }
        if let step, let item { onStep?(step, item) }
    }
}

extension AnyRequestOperation {
    var itemIndex: Int? { tags.first.flatMap { Int($0) } }
}

struct OpenRequest {
    let item: FetchItem
    let opened = ContinuousClock.now
    private var (begun, ended) = (0, 0)
    private var failedCount = 0
    private let secrets: Set<String>
    private(set) var resumed = ResumedBytes()
    private(set) var heldBytes = ByteProgress()
    var statusCode: Int?
    private var retry: RunningTransfer.Wait?

    init(item: FetchItem, hiding secrets: Set<String>) {
        self.item = item
        self.secrets = secrets
    }

    var hasBegun: Bool { begun > 0 }
    private var isUnderWay: Bool { begun > ended }

    /// The progress of the operation includes the body of a failure, so it counts only during a successful response.
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
