import Convoy
import ConvoyHTTPFile
import Foundation

// Safe to use from any thread. ``OpenRequests`` reports one request at a time, and ``RunGraph`` reports a dependency
// before it starts its dependents. ``ended(after:reason:)`` is called after the last report.
final class RunReport: Sendable {
    private struct State {
        var summary = FetchSummary()
        var brokenCount = 0
        /// Nil without `--junit`, because a JUnit report stores a case for each request.
        var junit: JUnitReport?
        var secrets: Set<String>?
    }

    struct Failure {
        let code: String
        let message: String
        /// Such a request gets no line, because hundreds of lines would hide the reason of the stop.
        var isCancelled = false
    }

    let run: GraphRun
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
    var wantsSteps: Bool { isJSON || run.console.isLive }

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
        if run.options.each == nil { counts.totalCount = (run.options.repeats ?? 1) * run.plan.requests.count }
        display.draw(summary.progress(counts, running), running)
    }

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

    // If the row cannot be recorded, no other row is started, because the next run would send its requests again.
    func note(_ row: Row) {
        guard let problem = run.rows.journal?.note(row) else { return }
        run.rows.stop()
        let place = "\(run.rows.name ?? ""):\(row.line)"
        run.console.printError(
            "convoy: \(place) has succeeded, but is not recorded, so no further row is started: \(problem)")
        state.withLock { $0.summary.countFailure(RequestError.Code.destinationUnwritable.rawValue) }
    }

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

    // Log texts may contain secrets, so they are not written to files or events.
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

    func failure(_ turn: RunGraph.Turn, _ outcome: GraphRun.Outcome, _ filled: Set<String>) -> Failure? {
        switch outcome {
        case .success(let response):
            return run.plan.requests[turn.place].request.checks.timeDefect(response).map {
                Failure(code: "checkFailed", message: $0)
            }
        case .failure(let error):
            let isCancelled =
                [.cancelled, .dependencyFailed].contains(error.code) && run.interruption.reason != nil
            let code = isCancelled ? RequestError.Code.cancelled : error.code
            return Failure(
                code: error.underlying is CheckFailure ? "checkFailed" : code.rawValue,
                message: error.message.hiding(secrets.union(filled)), isCancelled: isCancelled)
        }
    }

    func event(
        _ turn: RunGraph.Turn, _ outcome: GraphRun.Outcome, _ failure: Failure?, _ filled: Set<String>
    ) -> EventLine {
        let request = run.plan.requests[turn.place]
        let attempts = outcome.attempts()
        let ending = FetchOutcome(
            item: run.item(of: turn),
            result: outcome.map {
                FetchOutcome.Success(
                    head: $0.head, bytes: $0.transfer.download.completedBytes,
                    time: $0.timings.executed ?? .zero)
            }, attempts: attempts,
            span: EventSpan(queued: turn.queued, (try? outcome.get())?.timings, attempts))
        var event = EventLine(ending, directory: nil)
        (event.name, event.method, event.url) = (request.givenName, request.method, request.shownTarget)
        let hidden = secrets.union(filled)
        event.head = event.head?.map { $0.hiding(hidden) }
        event.timeline = event.timeline?.map { line in
            var line = line
            line.location = line.location?.hiding(hidden)
            return line
        }
        if case .success(let response) = outcome, case .file(let file) = response.value.body { event.file = file.path }
        if let failure {
            (event.event, event.code, event.message) = ("failed", failure.code, failure.message.visible())
        }
        let after = (request.needs + request.follows).map { run.index(of: turn) - turn.place + $0 }
        if !after.isEmpty { event.after = after }
        if let list = run.rows.name { (event.list, event.line) = (list, turn.row.line) }
        return event
    }

    func label(_ turn: RunGraph.Turn) -> String {
        run.plan.requests[turn.place].label + (run.rows.name.map { " (\($0):\(turn.row.line))" } ?? "")
    }

    func line(_ turn: RunGraph.Turn, _ response: Response<RunAnswer>) -> String {
        let request = run.plan.requests[turn.place]
        var what = "\(request.method) \(request.shownTarget)"
        if let name = request.givenName { what += "  (\(name))" }
        if let rowsName = run.rows.name { what += "  \(rowsName):\(turn.row.line)" }
        let figures =
            "\(Figures.bytes(response.transfer.download.completedBytes)) in "
            + Figures.time(response.timings.executed ?? .zero) + (response.attempts.cacheOutcome?.words ?? "")
            + tries(response.attempts)
        var line = "\(response.statusCode)  \(what)  \(figures)"
        if case .file(let file) = response.value.body { line += "  saved \(name(of: file))" }
        return line
    }

    private func name(of file: URL) -> String {
        let place = run.outputDirectory.path(percentEncoded: false)
        let directory = place.hasSuffix("/") ? place : place + "/"
        let path = file.path(percentEncoded: false)
        return path.hasPrefix(directory) ? String(path.dropFirst(directory.count)) : path
    }

    func tries(_ attempts: [AttemptRecord]) -> String {
        attempts.triedCount > 1 ? " (\(attempts.triedCount) attempts)" : ""
    }
}

extension String {
    /// Values of up to three bytes, `true`, `false` and `null` are left out, because ordinary text contains them.
    func hiding(_ secrets: Set<String>) -> String {
        let plain = secrets.subtracting(["true", "false", "null"]).filter { $0.utf8.count > 3 }
        let encoded = plain.flatMap { [$0.percentEncoded, PercentEscaper.url.escaped($0)] }
        return plain.union(encoded).sorted { $0.utf8.count > $1.utf8.count }
            .reduce(self) { $0.replacing($1, with: "<redacted>") }
    }

    // Characters that XML does not allow become question marks.
    fileprivate var xmlAttribute: String {
        let scalars = unicodeScalars.map { scalar -> Unicode.Scalar in
            switch scalar.value {
            case 0x09, 0x0A, 0x0D: " "
            case ..<0x20, 0xFFFE...0xFFFF: "?"
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars)).xmlEscaped(isInTag: true)
    }
}

struct JUnitReport {
    enum Outcome: String {
        case failure, skipped
    }

    let suite: String
    private(set) var cases: [(name: String, outcome: Outcome?, message: String, seconds: Double)] = []

    mutating func add(_ name: String, _ outcome: Outcome? = nil, _ message: String = "", seconds: Double = 0) {
        cases.append((name, outcome, message, seconds))
    }

    func text(after time: Duration) -> String {
        let failures = cases.count { $0.outcome == .failure }
        let skipped = cases.count { $0.outcome == .skipped }
        let name = suite.xmlAttribute
        let head =
            "<testsuite name=\"\(name)\" tests=\"\(cases.count)\" failures=\"\(failures)\" errors=\"0\" "
            + "skipped=\"\(skipped)\" time=\"\(Self.text(time.inSeconds))\">"
        var lines = ["<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "<testsuites>", head]
        for item in cases {
            let start =
                "<testcase classname=\"\(name)\" name=\"\(item.name.xmlAttribute)\" time=\"\(Self.text(item.seconds))\""
            let end = item.outcome.map { "><\($0.rawValue) message=\"\(item.message.xmlAttribute)\"/></testcase>" }
            lines.append(start + (end ?? "/>"))
        }
        return (lines + ["</testsuite>", "</testsuites>", ""]).joined(separator: "\n")
    }

    private static func text(_ seconds: Double) -> String { String(format: "%.3f", max(0, min(seconds, 1e9))) }
}
