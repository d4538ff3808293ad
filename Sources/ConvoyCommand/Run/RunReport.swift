// The output of a run: a line for each request, and the summary.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Reports the results of requests in the order in which they arrive.
///
/// ``RunGraph`` reports a dependency before it starts its dependents.
struct RunReport {
    /// The result of a request, with its times and attempts.
    struct Ending {
        let outcome: GraphRun.Outcome
        let span: EventSpan
        let attempts: [AttemptRecord]
        /// The secrets that no message and no event of the request may contain.
        let secrets: SentSecrets
    }

    /// The state of a row's requests.
    private struct RowState {
        let row: Row
        /// The reported attempts of running requests, for `--json`.
        var steps: [Int: ReportedSteps] = [:]
        /// The indices of the reported requests.
        var ended: Set<Int> = []
        var hasFailed = false
    }

    let options: RunOptions
    let plan: RunPlan
    /// The name of the file with the rows; nil without one.
    let rowsName: String?
    private let journal: RowJournal?
    let console: Console
    /// The data for `--report`; nil without it.
    private let kept: Locked<Report>?
    /// Prints responses; nil if none are printed.
    private let printer: AnswerPrinter?
    /// Draws the live lines; nil without a live display.
    private let screen: RunScreen?
    private var succeeded = 0
    private var failed = 0
    /// The number of requests that were not sent because of a failed dependency.
    private var unsent = 0
    private var cancelled = 0
    private var bytes: Int64 = 0
    private var failures: [String: Int] = [:]
    /// Secrets that no event may contain.
    private let secrets: Set<String>
    /// The secrets that requests took from responses and rows, by the index of the request.
    private let filledSecrets: Locked<[Int: Set<String>]>
    /// The running rows, by their index.
    private var rows: [Int: RowState] = [:]
    private var rowCount = 0
    /// The number of lines that are not rows.
    private var brokenCount = 0
    /// Whether all rows were read.
    var hasAllRows = false
    /// Nil without `--junit`, because a JUnit report stores a case for each request.
    private var junit: JUnitReport?

    init(
        options: RunOptions, plan: RunPlan, rowsName: String?, journal: RowJournal?, console: Console,
        kept: Locked<Report>?, hiding secrets: Set<String>, filledSecrets: Locked<[Int: Set<String>]>,
        printer: AnswerPrinter? = nil,
        screen: RunScreen? = nil
    ) {
        self.filledSecrets = filledSecrets
        self.secrets = plan.requests.reduce(into: secrets) { $0.formUnion($1.secrets) }
        (self.printer, self.screen) = (printer, screen)
        (self.options, self.plan, self.console, self.kept) = (options, plan, console, kept)
        (self.rowsName, self.journal) = (rowsName, journal)
        guard options.junit != nil else { return }
        var junit = JUnitReport(suite: options.file)
        for request in plan.leftOut { junit.add(request.label, .skipped(request.reason)) }
        self.junit = junit
    }

    /// Whether every request of every row has an outcome.
    var isComplete: Bool { hasAllRows && rows.isEmpty }
    var isJSON: Bool { options.fetch.isJSON }

    mutating func begin(_ row: Row) {
        rows[rowCount] = RowState(row: row)
        rowCount += 1
    }

    /// Records a line that is not a row.
    mutating func isBroken(_ line: Int, _ reason: String) {
        brokenCount += 1
        let place = "\(rowsName ?? ""):\(line)"
        junit?.add(place, .failure(reason))
        guard isJSON else { return console.printError("convoy: \(place): \(reason)") }
        console.printLine(
            EventLine(event: "failed", list: rowsName, line: line, code: "invalidRow", message: reason.visible())
                .jsonLine)
    }

    /// - Parameter index: the row's index times the number of requests, plus the index of the request.
    /// - Returns: whether the row has ended.
    mutating func happened(_ what: GraphRun.Happening, to index: Int, isStopping: Bool) -> Bool {
        let (number, place) = index.quotientAndRemainder(dividingBy: max(1, plan.requests.count))
        guard var row = rows.removeValue(forKey: number) else { return false }
        switch what {
        case .began(let attempt): reportStep(place, index, &row) { $0.begin(attempt) }
        case .ended(let record): reportStep(place, index, &row) { $0.end(record) }
        case .finished(let outcome, let queued):
            let attempts = outcome.attempts()
            if isJSON, let first = attempts.first {
                // Monitors run on another queue. Events that they send after this result are ignored, so missing steps
                // are reported here.
                reportStep(place, index, &row) { $0.begin(first.number) }
                for record in attempts where record.next != .outcome {
                    reportStep(place, index, &row) { $0.end(record) }
                }
            }
            let span = EventSpan(queued: queued, (try? outcome.get())?.timings, attempts)
            let ending = Ending(
                outcome: outcome, span: span, attempts: attempts,
                secrets: outcome.sentSecrets(in: attempts, and: secrets(of: index)))
            filledSecrets.withLock { $0[index] = nil }
            row.ended.insert(place)
            row.steps[place] = nil
            if tell(place, index - place, ending, row.row, isStopping) { row.hasFailed = true }
        }
        guard row.ended.count == plan.requests.count else {
            rows[number] = row
            return false
        }
        if !row.hasFailed, let problem = journal?.note(row.row) {
            console.printError("convoy: \(problem)")
            failed += 1
        }
        return true
    }

    /// The secrets that are known before a request is sent.
    private func secrets(of index: Int) -> Set<String> { secrets.union(filledSecrets.withLock { $0[index] } ?? []) }

    private func reportStep(
        _ place: Int, _ index: Int, _ row: inout RowState, _ note: (inout ReportedSteps) -> FetchStep?
    ) {
        guard isJSON, !row.ended.contains(place) else { return }
        guard let step = note(&row.steps[place, default: ReportedSteps(hiding: secrets(of: index))]) else { return }
        let request = plan.requests[place]
        console.printLine(EventLine(step, index: index, name: request.givenName, url: request.shownTarget).jsonLine)
    }

    /// - Returns: whether the request has failed.
    private mutating func tell(
        _ place: Int, _ firstIndex: Int, _ ending: Ending, _ row: Row, _ isStopping: Bool
    ) -> Bool {
        let request = plan.requests[place]
        var label: String { request.label + (rowsName.map { " (\($0):\(row.line))" } ?? "") }
        var hasFailed = true
        var defect: String?
        switch ending.outcome {
        case .success(let response):
            let seconds = (response.timings.executed ?? .zero).inSeconds
            defect = request.checks.timeDefect(response)
            reportLogs(request, response.value.logs)
            if let defect {
                failed += 1
                junit?.add(label, .failure(defect), seconds: seconds)
                reportFailure(request, label, defect)
            } else {
                succeeded += 1
                bytes += response.transfer.download.completedBytes
                junit?.add(label, .success, seconds: seconds)
                if !options.fetch.isQuiet, !isJSON { say(line(request, response, row)) }
                hasFailed = false
            }
        // Cancelled requests get no line, because hundreds would hide the line with the reason.
        case .failure(let error) where isStopping && [.cancelled, .dependencyFailed].contains(error.code):
            cancelled += 1
            junit?.add(label, .skipped("cancelled"))
        case .failure(let error):
            let message = message(of: error, without: ending.secrets)
            if let failure = error.underlying as? CheckFailure { reportLogs(request, failure.logs) }
            if error.code == .dependencyFailed { unsent += 1 } else { failed += 1 }
            reportFailure(request, label, message)
            // The response to a refused request may repeat secrets that are not known. The message of the event and the
            // JUnit file do not quote it.
            let recorded = ending.secrets.hidden(in: error.message)
            junit?.add(label, error.code == .dependencyFailed ? .skipped(recorded) : .failure(recorded))
            defect = recorded
        }
        screen?.finished(firstIndex + place, ending.outcome, hasFailed: hasFailed)
        if let printer { console.noteOutputProblem(printer.show(request, ending.outcome)) }
        guard isJSON || kept != nil else { return hasFailed }
        var event = event(place, ending, defect, isStopping)
        event.index = firstIndex + place
        event.after = event.after.map { $0.map { firstIndex + $0 } }
        if let rowsName { (event.list, event.line) = (rowsName, row.line) }
        if event.event == "failed", event.code != RequestError.Code.cancelled.rawValue, let code = event.code {
            failures[code, default: 0] += 1
        }
        if isJSON { console.printLine(event.jsonLine) }
        kept?.withLock { $0.add(event) }
        return hasFailed
    }

    /// Writes the file of `--junit`, and prints the summary.
    ///
    /// This is the last call.
    ///
    /// - Parameter reason: why the run was cancelled; nil if it was not cancelled.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        screen?.end()
        // Requests that were skipped because of scripts also prevent a success.
        let isComplete = failed + unsent + brokenCount + plan.leftOut.count == 0
        var status = reason ?? (isComplete ? .success : .failure)
        if let file = options.junit, let junit {
            let problems = OutputFile.write(junit.text(after: time), to: file)
            for problem in problems { console.printError("convoy: \(problem)") }
            if !problems.isEmpty, status == .success { status = .failure }
        }
        if isJSON {
            var event = EventLine(event: "summary", bytes: bytes, seconds: time.roundedSeconds)
            (event.succeeded, event.failed, event.unsent) = (succeeded, failed + brokenCount, unsent)
            (event.failures, event.cancelled, event.exitStatus) = (failures, cancelled, status.code)
            console.printLine(event.jsonLine)
        }
        guard !options.fetch.isQuiet, !isJSON else { return status }
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += "\(Figures.count(succeeded, "response")), \(Figures.bytes(bytes)) in \(Figures.time(time))"
        if failed > 0 { text += ", \(failed) failed" }
        if unsent > 0 { text += ", \(unsent) not sent" }
        if brokenCount > 0 { text += ", \(Figures.count(brokenCount, "invalid row"))" }
        if cancelled > 0 { text += ", \(cancelled) cancelled" }
        if !plan.leftOut.isEmpty { text += ", \(plan.leftOut.count) skipped" }
        say(status == .success ? text : "\(text); exit status \(status.code)")
        return status
    }

    /// Prints a line on standard output, or on standard error if standard output is for responses.
    private func say(_ line: String) {
        if let screen, screen.takes(line) { return }
        if printer == nil { console.printLine(line, wraps: true) } else { console.printError(line) }
    }

    /// Prints log texts of handlers.
    ///
    /// The texts may contain secrets, so they are not written to files or events.
    private func reportLogs(_ request: PlannedRequest, _ lines: [String]) {
        guard !isJSON, !options.fetch.isQuiet else { return }
        for line in lines { say("\(request.label): \(line)") }
    }
}
