// The output of a run: a line for each request, and the summary.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Reports the results of requests in the order in which they arrive.
///
/// ``RunGraph`` reports a dependency before it starts its dependents.
///
/// ## Concurrency
/// Safe to use from any thread. ``OpenRequests`` reports one request at a time. ``ended(after:reason:)`` is called
/// after the last report.
final class RunReport: Sendable {
    private struct State {
        var summary = FetchSummary()
        /// The number of invalid rows.
        var brokenCount = 0
        /// Nil without `--junit`, because a JUnit report stores a case for each request.
        var junit: JUnitReport?
        var secrets: Set<String>?
    }

    /// Why a request has failed.
    struct Failure {
        /// The code in events.
        let code: String
        let message: String
        /// Whether the request ended because the run was being stopped.
        ///
        /// Such a request gets no line, because hundreds of lines would hide the reason of the stop.
        var isCancelled = false
    }

    let run: GraphRun
    /// Prints responses; nil if none are printed.
    private let printer: AnswerPrinter?
    private let display: LiveDisplay
    private let state: Locked<State>

    init(_ run: GraphRun) {
        self.run = run
        let interruption = run.interruption
        printer = run.options.showsAnswers ? AnswerPrinter(run.options) { interruption.interrupt(.outputClosed) } : nil
        display = LiveDisplay(run.options.fetch, console: run.console, noun: "requests")
        var junit = run.options.junit.map { _ in JUnitReport(suite: run.options.file) }
        for request in run.plan.leftOut { junit?.add(request.label, .skipped, request.reason) }
        state = Locked(State(junit: junit))
    }

    private var isJSON: Bool { run.console.isJSON }
    private var printsLines: Bool { !isJSON && !run.options.fetch.isQuiet }
    /// Whether the starts and the further attempts of requests are reported.
    var wantsSteps: Bool { isJSON || run.console.isLive }

    /// The secrets that are known before a request is sent, and that no message and no event may contain.
    ///
    /// They are collected when a message or an event first needs them.
    var secrets: Set<String> {
        if let known = state.withLock({ $0.secrets }) { return known }
        let secrets = run.plan.requests.reduce(into: Set<String>()) { $0.formUnion($1.secrets) }
        state.withLock { $0.secrets = secrets }
        return secrets
    }

    func happened(_ step: FetchStep, to item: FetchItem) {
        guard isJSON else { return }
        let request = run.plan.requests[item.index % run.plan.requests.count]
        run.console.printLine(
            EventLine(step, index: item.index, name: request.givenName, url: request.shownTarget).jsonLine)
    }

    func draw(_ running: [RunningTransfer]) {
        let summary = state.withLock { $0.summary }
        var counts = RunProgress(failedCount: summary.failedCount + summary.cancelledCount)
        counts.finishedCount = counts.failedCount + summary.succeededCount
        // The number of rows of a file is unknown.
        if run.options.each == nil { counts.totalCount = (run.options.repeats ?? 1) * run.plan.requests.count }
        display.draw(summary.progress(counts, running), running)
    }

    /// Reports an invalid row.
    func isBroken(_ line: Int, _ reason: String) {
        let place = "\(run.rows.name ?? ""):\(line)"
        state.withLock { state in
            state.brokenCount += 1
            state.junit?.add(place, .failure, reason)
        }
        guard isJSON else { return run.console.printError("convoy: \(place): \(reason)") }
        let event = EventLine(
            event: "failed", list: run.rows.name, line: line, code: "invalidRow", message: reason.visible())
        run.console.printLine(event.jsonLine)
    }

    /// Records a row whose requests have all succeeded.
    ///
    /// If the row cannot be recorded, no other row is started, because the next run would send its requests again.
    func note(_ row: Row) {
        guard let problem = run.rows.journal?.note(row) else { return }
        run.rows.stop()
        let place = "\(run.rows.name ?? ""):\(row.line)"
        run.console.printError(
            "convoy: \(place) has succeeded, but is not recorded, so no further row is started: \(problem)")
        state.withLock { $0.summary.countFailure(RequestError.Code.destinationUnwritable.rawValue) }
    }

    /// Reports the end of a request.
    ///
    /// - Parameter filled: the secrets that the request took from responses and rows.
    /// - Returns: whether the request has failed.
    func finished(_ turn: RunGraph.Turn, _ outcome: GraphRun.Outcome, filled: Set<String>) -> Bool {
        let failure = failure(turn, outcome, filled)
        state.withLock { state in
            switch (outcome, failure) {
            case (_, let failure?) where failure.isCancelled: state.summary.cancelledCount += 1
            case (_, let failure?): state.summary.countFailure(failure.code)
            case (.success(let response), nil):
                state.summary.succeededCount += 1
                state.summary.bytes += response.transfer.download.completedBytes
            case (.failure, nil): break
            }
        }
        if run.options.junit != nil { addCase(turn, outcome, failure) }
        if let failure, !failure.isCancelled, !isJSON {
            let position = run.plan.requests[turn.place].request.position
            run.console.printError(
                "convoy: \(run.options.file):\(position.line): \(label(turn)): \(failure.message)"
                    + tries(outcome.attempts()))
        }
        if printsLines { say(turn, outcome, hasFailed: failure != nil) }
        if let printer { run.console.noteOutputProblem(printer.show(run.plan.requests[turn.place], outcome)) }
        if isJSON || run.setup.report != nil {
            let event = event(turn, outcome, failure, filled)
            if isJSON { run.console.printLine(event.jsonLine) }
            run.setup.report?.withLock { $0.add(event) }
        }
        return failure != nil
    }

    private func addCase(_ turn: RunGraph.Turn, _ outcome: GraphRun.Outcome, _ failure: Failure?) {
        let isUnsent = failure?.code == RequestError.Code.dependencyFailed.rawValue
        let result = failure.map { $0.isCancelled || isUnsent ? JUnitReport.Outcome.skipped : .failure }
        let message = failure?.isCancelled == true ? "cancelled" : failure?.message ?? ""
        let label = label(turn)
        state.withLock { $0.junit?.add(label, result, message, seconds: outcome.executed().inSeconds) }
    }

    /// Writes the file of `--junit`, and prints the summary.
    ///
    /// This is the last call.
    ///
    /// - Parameter reason: why the run was cancelled; nil if it was not cancelled.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        display.end()
        let (console, leftOutCount) = (run.console, run.plan.leftOut.count)
        let (summary, brokenCount, junit) = state.withLock { state in
            (state.summary.time, state.summary.reason) = (time, reason)
            return (state.summary, state.brokenCount, state.junit)
        }
        var status = summary.status
        // Requests that were skipped because of scripts also prevent a success.
        if status == .success, brokenCount + leftOutCount > 0 { status = .failure }
        if let file = run.options.junit, let junit {
            let isWritten = console.write(Data(junit.text(after: time).utf8), to: file)
            if !isWritten, status == .success { status = .failure }
        }
        let unsent = summary.failures[RequestError.Code.dependencyFailed.rawValue] ?? 0
        let failed = summary.failedCount - unsent
        if isJSON {
            let event = EventLine(
                event: "summary", bytes: summary.bytes, seconds: time.roundedSeconds, succeeded: summary.succeededCount,
                failed: failed + brokenCount, unsent: unsent, failures: summary.failures,
                cancelled: summary.cancelledCount, exitStatus: status.code)
            console.printLine(event.jsonLine)
        }
        guard printsLines else { return status }
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += Figures.count(summary.succeededCount, "response")
        text += ", \(Figures.bytes(summary.bytes)) in \(Figures.time(time))"
        if failed > 0 { text += ", \(failed) failed" }
        if unsent > 0 { text += ", \(unsent) not sent" }
        if brokenCount > 0 { text += ", \(Figures.count(brokenCount, "invalid row"))" }
        if summary.cancelledCount > 0 { text += ", \(summary.cancelledCount) cancelled" }
        if leftOutCount > 0 { text += ", \(leftOutCount) skipped" }
        if status != .success { text += "; exit status \(status.code)" }
        if printer == nil { console.printLine(text, wraps: true) } else { console.printError(text) }
        return status
    }

    /// Prints the log texts of handlers, and the line of a successful request.
    ///
    /// Log texts may contain secrets, so they are not written to files or events. If standard output is for responses,
    /// the lines go to standard error.
    private func say(_ turn: RunGraph.Turn, _ outcome: GraphRun.Outcome, hasFailed: Bool) {
        var lines: [String] = []
        switch outcome {
        case .success(let response): lines = response.value.logs
        case .failure(let error): lines = (error.underlying as? CheckFailure)?.logs ?? []
        }
        lines = lines.map { "\(run.plan.requests[turn.place].label): \($0)" }
        if !hasFailed, case .success(let response) = outcome { lines.append(line(turn, response)) }
        for line in lines { if printer == nil { display.say(line) } else { run.console.printError(line) } }
    }
}
