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
    /// The base of relative paths in the `.http` file.
    let sourceDirectory: URL
    let outputDirectory: URL
    let setup: FetchSetup
    let console: Console
    let interruption: Interruption

    typealias Outcome = RequestOperation<RunAnswer>.Result

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

        /// Ends the batch, and waits for its last callback.
        ///
        /// - Parameter drains: whether to wait also for the monitors and the cache's background validations.
        func finished(drains: Bool) async {
            source.finish()
            await batch.finished()
            if drains { await manager.drainBriefly() }
        }
    }

    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        let report = RunReport(self)
        let requests = OpenRequests(onStep: report.wantsSteps ? report.happened : nil)
        let lines = makeLines(report.wantsSteps ? [requests] : [])
        // At most `jobs` rows are open. Each open row has an unfinished request, so more open rows would not add
        // concurrent requests.
        let places = FetchPlaces(count: options.fetch.jobs)
        let graph = makeGraph(lines, requests, report, places)
        interruption.onStop {
            rows.stop()
            for line in lines {
                line.batch.cancel()
                if setup.cache != nil { line.manager.cancelAll() }
            }
            graph.stop()
        }
        await Ticker.ticking(every: console.isLive ? .milliseconds(100) : nil) {
            let operations = lines.flatMap { $0.manager.operations }
            requests.inTurn { report.draw(requests.transfers(of: operations).started) }
        } while: {
            await launchRows(graph, requests, report, places)
            // An open row has a slot, so every row has ended when all slots are free.
            for _ in 0..<options.fetch.jobs { await places.take() }
        }
        let drains = setup.cache != nil || !setup.monitors.isEmpty
        await withTaskGroup(of: Void.self) { group in
            for line in lines { group.addTask { await line.finished(drains: drains) } }
        }
        return report.ended(after: .now - start, reason: interruption.reason)
    }

    private func launchRows(
        _ graph: RunGraph, _ requests: OpenRequests, _ report: RunReport, _ places: FetchPlaces
    ) async {
        var rows = rows
        while true {
            await places.take()
            var outcome: RowReader.Outcome?
            if interruption.reason == nil { outcome = await rows.next() }
            switch outcome {
            case .row(let row)?: graph.begin(row)
            case .broken(let line, let reason)?:
                requests.inTurn { report.isBroken(line, reason) }
                places.give()
            case nil: return places.give()
            }
        }
    }

    private func makeGraph(
        _ lines: [Line], _ requests: OpenRequests, _ report: RunReport, _ places: FetchPlaces
    ) -> RunGraph {
        let batches = plan.requests.indices.map { lines[uses($0) ? 0 : lines.count - 1].batch }
        // A deadline starts when a request is queued. So with a deadline, at most `jobs` requests are in the managers.
        let window = options.fetch.deadline == nil ? max(1_024, 4 * options.fetch.jobs) : options.fetch.jobs
        return RunGraph(plan, window: window) { (turn, finish) throws(RequestError) in
            let (made, secrets) = try request(for: turn)
            let request = setup.told(made, index(of: turn))
            if report.wantsSteps { requests.begin(item(of: turn), hiding: report.secrets.union(secrets)) }
            guard batches[turn.place].add(request, onResult: { finish($0, secrets) }) != nil else {
                throw RequestError(.cancelled, "cancelled before it was sent")
            }
        } report: { turn, outcome, secrets in
            requests.close(index(of: turn), outcome.attempts()) { _ in
                report.finished(turn, outcome, filled: secrets)
            }
        } rowEnded: { row, hasFailed in
            if !hasFailed { requests.inTurn { report.note(row) } }
            places.give()
        }
    }

    /// The index that identifies a request in events.
    func index(of turn: RunGraph.Turn) -> Int { turn.rowNumber * plan.requests.count + turn.place }

    /// The request as an item of the display.
    func item(of turn: RunGraph.Turn) -> FetchItem {
        let url = URL(filePath: "/", directoryHint: .isDirectory)
        return FetchItem(index: index(of: turn), url: url, fileName: plan.requests[turn.place].label.visible())
    }

    /// Whether a request uses the cookie jar.
    ///
    /// Several rows never share a cookie jar, because one row could use the login of another row.
    private func uses(_ place: Int) -> Bool {
        options.each == nil && options.repeats == nil && plan.requests[place].request.usesCookieJar
    }

    /// Returns a manager with a cookie jar, then a manager without one, each only if requests need it.
    ///
    /// Each manager applies the limits separately.
    private func makeLines(_ monitors: [any EventMonitor]) -> [Line] {
        var configuration = setup.configuration(monitors)
        let places = plan.requests.indices
        let without = places.allSatisfy(uses) ? nil : Line(RequestManager(configuration: configuration))
        guard places.contains(where: uses) else { return [without].compactMap(\.self) }
        configuration.cookies = CookieJar()
        return [Line(RequestManager(configuration: configuration)), without].compactMap(\.self)
    }
}
