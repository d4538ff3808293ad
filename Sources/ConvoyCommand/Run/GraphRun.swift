// One run: an operation for each request, with the dependencies of the plan.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Sends the requests of a plan, as many at a time as may be, and tells what came of each.
struct GraphRun {
    let options: RunOptions
    let plan: RunPlan
    let surroundings: Surroundings
    let sourceDirectory: URL
    let outputDirectory: URL
    let setup: FetchSetup
    let console: Console
    let interruption: Interruption

    typealias Outcome = RequestOperation<RunAnswer>.Result

    /// Something that is told.
    enum Happening: Sendable {
        case began(attempt: Int)
        case ended(AttemptRecord)
        /// The last of a request; with the moment at which it was taken.
        case finished(Outcome, queued: ContinuousClock.Instant)
    }

    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        let (happenings, tell) = AsyncStream.makeStream(of: (place: Int, what: Happening).self)
        let managers = makeManagers(options.fetch.isJSON ? [StepMonitor { tell.yield(($0, $1)) }] : [])
        var operations: [RequestOperation<RunAnswer>] = []
        let maker = RequestMaker(
            plan: plan, surroundings: surroundings, options: options.fetch, sourceDirectory: sourceDirectory,
            outputDirectory: outputDirectory)
        for (place, request) in plan.requests.enumerated() {
            let manager = request.request.usesCookieJar ? managers.withCookies : managers.without
            let operation = manager.operation(after: request.needs.map { operations[$0] }) { answers in
                try maker.request(at: place, after: answers)
            }
            operation.name = request.label
            for followed in request.follows { operation.addDependency(operations[followed], onFailure: .ignore) }
            let queued = ContinuousClock.now
            operation.onFinish { tell.yield((place, .finished($0, queued: queued))) }
            operations.append(operation)
        }
        interruption.onStop {
            managers.withCookies.cancelAll()
            managers.without.cancelAll()
        }
        managers.withCookies.enqueue(contentsOf: operations.enumerated().filter { uses($0.offset) }.map(\.element))
        managers.without.enqueue(contentsOf: operations.enumerated().filter { !uses($0.offset) }.map(\.element))
        operations = []
        var report = RunReport(options: options, plan: plan, console: console, kept: setup.report)
        for await (place, what) in happenings {
            report.happened(what, to: place, isStopping: interruption.reason != nil)
            if report.isComplete { break }
        }
        if !setup.monitors.isEmpty {
            await managers.withCookies.drain()
            await managers.without.drain()
        }
        return report.ended(after: .now - start, reason: interruption.reason)
    }

    private func uses(_ place: Int) -> Bool { plan.requests[place].request.usesCookieJar }

    /// Those of `# @no-cookie-jar` have a manager of their own, whose limits count apart.
    private func makeManagers(
        _ monitors: [any EventMonitor]
    ) -> (withCookies: RequestManager, without: RequestManager) {
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
    let tell: @Sendable (_ place: Int, _ what: GraphRun.Happening) -> Void

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        guard let place = operation.tags.first.flatMap({ Int($0) }) else { return }
        switch event {
        case .started(let attempt): tell(place, .began(attempt: attempt))
        case .attemptEnded(let record): tell(place, .ended(record))
        default: break
        }
    }
}
