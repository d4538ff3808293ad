// Runs a plan: reads rows, sends the requests of each row, and reports the results.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of a plan for each row, concurrently within the limits, and reports each result.
///
/// A row is read only when a slot is free, so memory does not grow with the number of rows.
struct GraphRun: Sendable {
    let options: RunOptions
    let plan: RunPlan
    let surroundings: Surroundings
    let rows: RowSource
    let journal: RowJournal?
    let sourceDirectory: URL
    let outputDirectory: URL
    let setup: FetchSetup
    let console: Console
    let interruption: Interruption

    typealias Outcome = RequestOperation<RunAnswer>.Result

    /// An event of a request.
    enum Happening: Sendable {
        case began(attempt: Int)
        case ended(AttemptRecord)
        /// The last event, with the moment at which the request was queued.
        case finished(Outcome, queued: ContinuousClock.Instant)
    }

    /// The input of the report: a row, then the events of its requests; finally the end of the rows.
    private enum Notice: Sendable {
        case row(Row)
        case broken(line: Int, reason: String)
        case happening(index: Int, Happening)
        case rowsEnded
    }

    /// A manager, and the batch to which its requests are added.
    private struct Line: Sendable {
        let manager: RequestManager
        let batch: Batch<RunAnswer>
        private let source: AsyncStream<Request<RunAnswer>>.Continuation

        init(_ manager: RequestManager) {
            let (requests, source) = AsyncStream.makeStream(of: Request<RunAnswer>.self)
            (self.manager, self.source) = (manager, source)
            batch = manager.batch(pulling: requests, keepsResults: false)
        }

        /// Waits for the last callback, and optionally for the events of monitors.
        func finished(drains: Bool) async {
            source.finish()
            await batch.finished()
            if drains { await manager.drainBriefly() }
        }
    }

    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        let (notices, tell) = AsyncStream.makeStream(of: Notice.self)
        let screen = console.isLive ? makeScreen() : nil
        let steps = options.fetch.isJSON ? StepMonitor { tell.yield(.happening(index: $0, $1)) } : nil
        let monitors: [(any EventMonitor)?] = [screen, steps]
        let lines = makeLines(monitors.compactMap(\.self))
        let filledSecrets = Locked<[Int: Set<String>]>([:])
        let graph = makeGraph(lines, filledSecrets) { tell.yield($0) }
        interruption.onStop {
            rows.stop()
            for line in lines {
                line.batch.cancel()
                if setup.cache != nil { line.manager.cancelAll() }
            }
            graph.stop()
        }
        // At most `jobs` rows are open. Each open row has an unfinished request, so more rows are not needed.
        let places = FetchPlaces(count: options.fetch.jobs)
        async let launched: Void = launchRows(graph, places) { tell.yield($0) }
        let printer =
            options.showsAnswers
            ? AnswerPrinter(options) { [interruption] in interruption.interrupt(.outputClosed) } : nil
        var report = RunReport(
            options: options, plan: plan, rowsName: rows.name, journal: journal, console: console, kept: setup.report,
            hiding: setup.secrets, filledSecrets: filledSecrets, printer: printer, screen: screen)
        screen?.start()
        reading: for await notice in notices {
            let isStopping = interruption.reason != nil
            switch notice {
            case .row(let row): report.begin(row)
            case .broken(let line, let reason): report.isBroken(line, reason)
            case .happening(let index, let what):
                if report.happened(what, to: index, isStopping: isStopping) { places.give() }
            case .rowsEnded: report.hasAllRows = true
            }
            if report.isComplete { break reading }
        }
        await launched
        for line in lines { await line.finished(drains: setup.cache != nil || !setup.monitors.isEmpty) }
        return report.ended(after: .now - start, reason: interruption.reason)
    }

    private func launchRows(
        _ graph: RunGraph, _ places: FetchPlaces, _ tell: @escaping @Sendable (Notice) -> Void
    ) async {
        var rows = rows
        while true {
            await places.take()
            guard interruption.reason == nil, let outcome = await rows.next() else { break }
            switch outcome {
            case .broken(let line, let reason):
                tell(.broken(line: line, reason: reason))
                places.give()
            case .row(let row):
                tell(.row(row))
                graph.begin(row)
            }
        }
        tell(.rowsEnded)
    }

    private func makeGraph(
        _ lines: [Line], _ filledSecrets: Locked<[Int: Set<String>]>, _ tell: @escaping @Sendable (Notice) -> Void
    ) -> RunGraph {
        let maker = RequestMaker(
            plan: plan, surroundings: surroundings, options: options.fetch, sourceDirectory: sourceDirectory,
            outputDirectory: outputDirectory, filledSecrets: filledSecrets, isShown: options.showsBody)
        let (count, setup) = (plan.requests.count, setup)
        let batches = plan.requests.indices.map { lines[uses($0) ? 0 : lines.count - 1].batch }
        // A deadline starts when a request is queued. So with a deadline, at most `jobs` requests are in the managers.
        let window = options.fetch.deadline == nil ? max(1_024, 4 * options.fetch.jobs) : options.fetch.jobs
        return RunGraph(plan, window: window) { (turn, finish) throws(RequestError) in
            let index = turn.rowNumber * count + turn.place
            let request = setup.told(
                try maker.request(at: turn.place, of: turn.row, index: index, after: turn.answers), index)
            guard batches[turn.place].add(request, onResult: finish) != nil else {
                throw RequestError(.cancelled, "cancelled before it was sent")
            }
        } tell: { turn, outcome in
            tell(.happening(index: turn.rowNumber * count + turn.place, .finished(outcome, queued: turn.queued)))
        }
    }

    private func makeScreen() -> RunScreen {
        let count = options.each == nil ? (options.repeats ?? 1) * plan.requests.count : nil
        return RunScreen(plan, options.fetch, totalCount: count, console: console)
    }

    /// Whether a request uses the cookie jar.
    ///
    /// Several rows never share a cookie jar, because one row could use the login of another row.
    private func uses(_ place: Int) -> Bool {
        options.each == nil && options.repeats == nil && plan.requests[place].request.usesCookieJar
    }

    /// Makes a manager with a cookie jar, then a manager without one, each only if requests need it.
    ///
    /// Each manager applies the limits separately.
    private func makeLines(_ monitors: [any EventMonitor]) -> [Line] {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: options.fetch.jobs, maxConcurrentPerHost: options.fetch.perHost,
            transport: setup.transport)
        configuration.retries = RetryPolicy(maxRetries: options.fetch.retries)
        configuration.retryBudget = .unlimited
        configuration.limit(by: options.fetch)
        configuration.cache = setup.cache
        configuration.interceptors = setup.interceptors
        configuration.monitors = setup.monitors + monitors
        let places = plan.requests.indices
        let without = places.allSatisfy(uses) ? nil : Line(RequestManager(configuration: configuration))
        guard places.contains(where: uses) else { return [without].compactMap(\.self) }
        configuration.cookies = CookieJar()
        return [Line(RequestManager(configuration: configuration)), without].compactMap(\.self)
    }
}

/// Reports the start and the end of attempts, for `--json`.
private struct StepMonitor: EventMonitor {
    let tell: @Sendable (_ index: Int, _ what: GraphRun.Happening) -> Void

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let index = operation.tags.first.flatMap({ Int($0) }) else { return }
        switch event {
        case .started(let attempt): tell(index, .began(attempt: attempt))
        case .attemptEnded(let record): tell(index, .ended(record))
        default: break
        }
    }
}
