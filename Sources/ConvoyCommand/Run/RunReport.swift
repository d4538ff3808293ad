// What a run tells: a line for each request, and the figures of the whole.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Tells the outcomes of requests, one after the other; that of one that others need before theirs.
struct RunReport {
    private let options: RunOptions
    private let plan: RunPlan
    private let console: Console
    private var succeeded = 0
    private var failed = 0
    /// Requests that were not sent because of another.
    private var unsent = 0
    private var cancelled = 0
    private var bytes: Int64 = 0
    /// Of how many that it needs each is still to be told.
    private var untold: [Int]
    private let dependents: [[Int]]
    /// What cannot be told yet: a failure ends those that need it before its own end is told.
    private var held: [Int: GraphRun.Outcome] = [:]
    private var junit: JUnitReport

    init(options: RunOptions, plan: RunPlan, console: Console) {
        (self.options, self.plan, self.console) = (options, plan, console)
        untold = plan.requests.map(\.needs.count)
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

    mutating func finished(_ place: Int, _ outcome: GraphRun.Outcome, isStopping: Bool) {
        held[place] = outcome
        var open = untold[place] == 0 ? [place] : []
        while let place = open.popLast() {
            guard let outcome = held.removeValue(forKey: place) else { continue }
            tell(place, outcome, isStopping)
            for dependent in dependents[place].reversed() {
                untold[dependent] -= 1
                if untold[dependent] == 0 { open.append(dependent) }
            }
        }
    }

    private mutating func tell(_ place: Int, _ outcome: GraphRun.Outcome, _ isStopping: Bool) {
        let request = plan.requests[place]
        switch outcome {
        case .success(let response):
            let seconds = (response.timings.executed ?? .zero).inSeconds
            if let defect = request.checks.timeDefect(response) {
                failed += 1
                junit.add(request.label, .failure(defect), seconds: seconds)
                return tellFailure(request, defect)
            }
            succeeded += 1
            bytes += response.transfer.download.completedBytes
            junit.add(request.label, .success, seconds: seconds)
            if !options.fetch.isQuiet { console.printLine(line(request, response)) }
        // Hundreds of lines that say "cancelled" would hide the one that says why.
        case .failure(let error) where isStopping && [.cancelled, .dependencyFailed].contains(error.code):
            cancelled += 1
            junit.add(request.label, .skipped("cancelled"))
        case .failure(let error):
            let message = message(of: error)
            if error.code == .dependencyFailed { unsent += 1 } else { failed += 1 }
            junit.add(request.label, error.code == .dependencyFailed ? .skipped(message) : .failure(message))
            tellFailure(request, message)
        }
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
        guard !options.fetch.isQuiet else { return status }
        var text = (reason?.reason).map { "\($0): " } ?? ""
        text += "\(Figures.count(succeeded, "answer")), \(Figures.bytes(bytes)) in \(Figures.time(time))"
        if failed > 0 { text += ", \(failed) failed" }
        if unsent > 0 { text += ", \(unsent) not sent" }
        if cancelled > 0 { text += ", \(cancelled) cancelled" }
        console.printLine(status == .success ? text : "\(text); exit status \(status.code)")
        return status
    }

    private func line(_ request: PlannedRequest, _ response: Response<RunAnswer>) -> String {
        let what = "\(request.method) \(request.shownTarget)"
        let name = request.label == what ? "" : "  (\(request.label))"
        let figures =
            "\(Figures.bytes(response.transfer.download.completedBytes)) in "
            + Figures.time(response.timings.executed ?? .zero)
        var line = "\(response.statusCode)  \(what)\(name)  \(figures)"
        if case .file(let file) = response.value.body { line += "  saved \(file.lastPathComponent)" }
        return line
    }

    private func tellFailure(_ request: PlannedRequest, _ message: String) {
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
