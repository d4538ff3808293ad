// One run: an operation for each request, with the dependencies of the plan.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of a plan for each row, as many at a time as may be, and tells what came of each.
///
/// Memory stays flat: a row is read when there is room for one more.
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

    /// Something that is told of a request.
    enum Happening: Sendable {
        case began(attempt: Int)
        case ended(AttemptRecord)
        /// The last of a request; with the moment at which it was taken.
        case finished(Outcome, queued: ContinuousClock.Instant)
    }

    /// What the report hears, in this order: a row, what happens to its requests, at last the end of the rows.
    private enum Notice: Sendable {
        case row(Row)
        case broken(line: Int, reason: String)
        case happening(index: Int, Happening)
        case rowsEnded
    }

    private typealias Managers = (withCookies: RequestManager, without: RequestManager)

    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        let (notices, tell) = AsyncStream.makeStream(of: Notice.self)
        let screen = console.isLive ? makeScreen() : nil
        let steps = options.fetch.isJSON ? StepMonitor { tell.yield(.happening(index: $0, $1)) } : nil
        let monitors: [(any EventMonitor)?] = [screen, steps]
        let managers = makeManagers(monitors.compactMap(\.self))
        interruption.onStop {
            rows.stop()
            managers.withCookies.cancelAll()
            managers.without.cancelAll()
        }
        // Each row has a request that can be sent, so that these keep all jobs busy.
        let places = FetchPlaces(count: options.fetch.jobs)
        async let launched: Void = launchRows(managers, places) { tell.yield($0) }
        let printer =
            options.showsAnswers
            ? AnswerPrinter(options) { [interruption] in interruption.interrupt(.outputClosed) } : nil
        var report = RunReport(
            options: options, plan: plan, rowsName: rows.name, journal: journal, console: console, kept: setup.report,
            printer: printer, screen: screen)
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
        if !setup.monitors.isEmpty {
            await managers.withCookies.drain()
            await managers.without.drain()
        }
        return report.ended(after: .now - start, reason: interruption.reason)
    }

    private func launchRows(
        _ managers: Managers, _ places: FetchPlaces, _ tell: @escaping @Sendable (Notice) -> Void
    ) async {
        var (rows, count) = (rows, 0)
        while true {
            await places.take()
            guard interruption.reason == nil, let outcome = await rows.next() else { break }
            switch outcome {
            case .broken(let line, let reason):
                tell(.broken(line: line, reason: reason))
                places.give()
            case .row(let row):
                tell(.row(row))
                launch(row, firstIndex: count * plan.requests.count, managers, tell)
                count += 1
                // One that was launched while everything was being cancelled.
                if interruption.reason != nil {
                    managers.withCookies.cancelAll()
                    managers.without.cancelAll()
                }
            }
        }
        tell(.rowsEnded)
    }

    private func launch(
        _ row: Row, firstIndex: Int, _ managers: Managers, _ tell: @escaping @Sendable (Notice) -> Void
    ) {
        var operations: [RequestOperation<RunAnswer>] = []
        let maker = RequestMaker(
            plan: plan, surroundings: surroundings, options: options.fetch, sourceDirectory: sourceDirectory,
            outputDirectory: outputDirectory, isShown: options.showsBody)
        for (place, request) in plan.requests.enumerated() {
            let (manager, index) = (uses(place) ? managers.withCookies : managers.without, firstIndex + place)
            let operation = manager.operation(after: request.needs.map { operations[$0] }) { answers in
                setup.told(try maker.request(at: place, of: row, index: index, after: answers), index)
            }
            operation.name = request.label
            for followed in request.follows { operation.addDependency(operations[followed], onFailure: .ignore) }
            let queued = ContinuousClock.now
            operation.onFinish { tell(.happening(index: index, .finished($0, queued: queued))) }
            operations.append(operation)
        }
        managers.withCookies.enqueue(contentsOf: operations.enumerated().filter { uses($0.offset) }.map(\.element))
        managers.without.enqueue(contentsOf: operations.enumerated().filter { !uses($0.offset) }.map(\.element))
    }

    private func makeScreen() -> RunScreen {
        let count = options.each == nil ? (options.repeats ?? 1) * plan.requests.count : nil
        return RunScreen(plan, options.fetch, totalCount: count, console: console)
    }

    /// Rows share no cookies: one would be logged in as another.
    private func uses(_ place: Int) -> Bool {
        options.each == nil && options.repeats == nil && plan.requests[place].request.usesCookieJar
    }

    /// Those of `# @no-cookie-jar` have a manager of their own, whose limits count apart.
    private func makeManagers(_ monitors: [any EventMonitor]) -> Managers {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: options.fetch.jobs, maxConcurrentPerHost: options.fetch.perHost,
            transport: setup.transport)
        configuration.retries = RetryPolicy(maxRetries: options.fetch.retries)
        configuration.retryBudget = .unlimited
        configuration.limit(by: options.fetch)
        configuration.interceptors = setup.interceptors
        configuration.monitors = setup.monitors + monitors
        let without = RequestManager(configuration: configuration)
        configuration.cookies = CookieJar()
        return (RequestManager(configuration: configuration), without)
    }
}

/// Tells of attempts; only `--json` does.
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
