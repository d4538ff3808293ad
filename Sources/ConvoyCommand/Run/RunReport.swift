// What a run tells: a line for each request, and the figures of the whole.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Tells the outcomes of requests, one after the other; that of one that others need before theirs.
struct RunReport {
    /// An end that cannot be told yet.
    private struct Ending {
        let outcome: GraphRun.Outcome
        let span: EventSpan
        let attempts: [AttemptRecord]
    }

    private let options: RunOptions
    private let plan: RunPlan
    private let console: Console
    /// What is kept for `--report`; nil without it.
    private let kept: Locked<Report>?
    private var succeeded = 0
    private var failed = 0
    /// Requests that were not sent because of another.
    private var unsent = 0
    private var cancelled = 0
    private var bytes: Int64 = 0
    private var failures: [String: Int] = [:]
    /// Of how many that it needs each is still to be told.
    private var untold: [Int]
    private let dependents: [[Int]]
    /// What cannot be told yet: a failure ends those that need it before its own end is told.
    private var held: [Int: Ending] = [:]
    /// Of the requests under way, where steps are told.
    private var steps: [Int: ToldSteps] = [:]
    private var hasEnded: [Bool]
    private var junit: JUnitReport

    init(options: RunOptions, plan: RunPlan, console: Console, kept: Locked<Report>?) {
        (self.options, self.plan, self.console, self.kept) = (options, plan, console, kept)
        untold = plan.requests.map(\.needs.count)
        hasEnded = plan.requests.map { _ in false }
        var dependents = [[Int]](repeating: [], count: plan.requests.count)
        for (place, request) in plan.requests.enumerated() {
            for needed in request.needs { dependents[needed].append(place) }
        }
        self.dependents = dependents
        junit = JUnitReport(suite: options.file)
        for request in plan.leftOut { junit.add(request.label, .skipped(request.reason)) }
    }

    /// Whether every request has an outcome.
    var isComplete: Bool { succeeded + failed + unsent + cancelled == plan.requests.count }
    private var isJSON: Bool { options.fetch.isJSON }

    mutating func happened(_ what: GraphRun.Happening, to place: Int, isStopping: Bool) {
        switch what {
        case .began(let attempt): tellStep(place) { $0.begin(attempt) }
        case .ended(let record): tellStep(place) { $0.end(record) }
        case .finished(let outcome, let queued):
            let attempts = outcome.attempts()
            if isJSON, let first = attempts.first {
                // What another queue has not told by now comes too late.
                tellStep(place) { $0.begin(first.number) }
                for record in attempts where record.next != .outcome { tellStep(place) { $0.end(record) } }
            }
            let span = EventSpan(queued: queued, (try? outcome.get())?.timings, attempts)
            held[place] = Ending(outcome: outcome, span: span, attempts: attempts)
            hasEnded[place] = true
            steps[place] = nil
            tellHeld(place, isStopping)
        }
    }

    private mutating func tellStep(_ place: Int, _ note: (inout ToldSteps) -> FetchStep?) {
        guard isJSON, plan.requests.indices.contains(place), !hasEnded[place] else { return }
        guard let step = note(&steps[place, default: ToldSteps()]) else { return }
        let request = plan.requests[place]
        console.printLine(EventLine(step, index: place, name: request.givenName, url: request.shownTarget).jsonLine)
    }

    private mutating func tellHeld(_ place: Int, _ isStopping: Bool) {
        var open = untold[place] == 0 ? [place] : []
        while let place = open.popLast() {
            guard let ending = held.removeValue(forKey: place) else { continue }
            tell(place, ending, isStopping)
            for dependent in dependents[place].reversed() {
                untold[dependent] -= 1
                if untold[dependent] == 0 { open.append(dependent) }
            }
        }
    }

    private mutating func tell(_ place: Int, _ ending: Ending, _ isStopping: Bool) {
        let request = plan.requests[place]
        var defect: String?
        switch ending.outcome {
        case .success(let response):
            let seconds = (response.timings.executed ?? .zero).inSeconds
            defect = request.checks.timeDefect(response)
            if let defect {
                failed += 1
                junit.add(request.label, .failure(defect), seconds: seconds)
                tellFailure(request, defect)
            } else {
                succeeded += 1
                bytes += response.transfer.download.completedBytes
                junit.add(request.label, .success, seconds: seconds)
                if !options.fetch.isQuiet, !isJSON { console.printLine(line(request, response)) }
            }
        // Hundreds of lines that say "cancelled" would hide the one that says why.
        case .failure(let error) where isStopping && [.cancelled, .dependencyFailed].contains(error.code):
            cancelled += 1
            junit.add(request.label, .skipped("cancelled"))
        case .failure(let error):
            let message = message(of: error)
            if error.code == .dependencyFailed { unsent += 1 } else { failed += 1 }
            junit.add(request.label, error.code == .dependencyFailed ? .skipped(message) : .failure(message))
            tellFailure(request, message)
            // What a server wrote may repeat what it was sent: that stays on the terminal.
            defect = error.underlying is CheckFailure ? message : error.message
        }
        guard isJSON || kept != nil else { return }
        let event = event(place, ending, defect, isStopping)
        if event.event == "failed", event.code != RequestError.Code.cancelled.rawValue, let code = event.code {
            failures[code, default: 0] += 1
        }
        if isJSON { console.printLine(event.jsonLine) }
        kept?.withLock { $0.add(event) }
    }

    /// Tells the figures of the whole; the last call.
    ///
    /// - Parameter reason: why everything was cancelled; nil when nothing was.
    func ended(after time: Duration, reason: ExitStatus?) -> ExitStatus {
        var status = reason ?? (failed + unsent == 0 ? .success : .failure)
        if let file = options.junit {
            let problems = FetchSetup.write(junit.text(after: time), to: file)
            for problem in problems { console.printError("convoy: \(problem)") }
            if !problems.isEmpty, status == .success { status = .failure }
        }
        if isJSON {
            var event = EventLine(event: "summary", bytes: bytes, seconds: time.roundedSeconds)
            (event.succeeded, event.failed, event.unsent) = (succeeded, failed, unsent)
            (event.failures, event.cancelled, event.exitStatus) = (failures, cancelled, status.code)
            console.printLine(event.jsonLine)
        }
        guard !options.fetch.isQuiet, !isJSON else { return status }
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += "\(Figures.count(succeeded, "answer")), \(Figures.bytes(bytes)) in \(Figures.time(time))"
        if failed > 0 { text += ", \(failed) failed" }
        if unsent > 0 { text += ", \(unsent) not sent" }
        if cancelled > 0 { text += ", \(cancelled) cancelled" }
        console.printLine(status == .success ? text : "\(text); exit status \(status.code)")
        return status
    }

    /// The end of a request as an event.
    ///
    /// - Parameter defect: why it failed, in the words of this report; nil where it did not, or was cancelled.
    private func event(_ place: Int, _ ending: Ending, _ defect: String?, _ isStopping: Bool) -> EventLine {
        let request = plan.requests[place]
        var event = EventLine(
            event: "finished", index: place, name: request.givenName, method: request.method, url: request.shownTarget)
        event.attempts = ending.attempts.triedCount
        switch ending.outcome {
        case .success(let response):
            event.status = response.statusCode
            event.bytes = response.transfer.download.completedBytes
            event.seconds = (response.timings.executed ?? .zero).roundedSeconds
            if case .file(let file) = response.value.body { event.file = file.path }
            if defect != nil { event.code = "checkFailed" }
        case .failure(let error):
            event.status = error.response?.statusCode
            let isCancelled = isStopping && error.code == .dependencyFailed
            event.code =
                error.underlying is CheckFailure
                ? "checkFailed" : isCancelled ? RequestError.Code.cancelled.rawValue : error.code.rawValue
            event.seconds = ending.attempts.first.map { (ending.span.ended - $0.started).roundedSeconds }
            event.message = error.message.visible()
        }
        if event.code != nil { event.event = "failed" }
        if let defect { event.message = defect.visible() }
        let after = request.needs + request.follows
        if !after.isEmpty { event.after = after }
        event.setTimes(ending.span, ending.attempts)
        return event
    }

    private func line(_ request: PlannedRequest, _ response: Response<RunAnswer>) -> String {
        let what = "\(request.method) \(request.shownTarget)"
        let name = request.givenName.map { "  (\($0))" } ?? ""
        let figures =
            "\(Figures.bytes(response.transfer.download.completedBytes)) in "
            + Figures.time(response.timings.executed ?? .zero)
        var line = "\(response.statusCode)  \(what)\(name)  \(figures)"
        if case .file(let file) = response.value.body { line += "  saved \(file.lastPathComponent)" }
        return line
    }

    private func tellFailure(_ request: PlannedRequest, _ message: String) {
        if isJSON { return }
        let place = "\(options.file):\(request.request.position.line)"
        console.printError("convoy: \(place): \(request.label): \(message)")
    }

    /// The library's words, with the beginning of what the server said; of a check its own.
    private func message(of error: RequestError) -> String {
        if let failure = error.underlying as? CheckFailure { return failure.description }
        guard error.code == .unacceptableStatus, let body = error.body?.prefix(400) else { return error.message }
        let words = String(decoding: body, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        // A page for browsers says little here.
        return words.isEmpty || words.hasPrefix("<")
            ? error.message : "\(error.message): \(words.clipped(toColumns: 160))"
    }
}

extension PlannedRequest {
    /// What the file calls it; nil where that is method and URL.
    fileprivate var givenName: String? { label == "\(method) \(shownTarget)" ? nil : label }
}
