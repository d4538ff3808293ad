// The outcome of a request as an event and as text.
import Convoy
import ConvoyHTTPFile
import Foundation

extension RunReport {
    /// Why a request has failed; nil after a success.
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

    /// The end of a request as an event.
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
        if case .success(let response) = outcome, case .file(let file) = response.value.body { event.file = file.path }
        if let failure {
            (event.event, event.code, event.message) = ("failed", failure.code, failure.message.visible())
        }
        let after = (request.needs + request.follows).map { run.index(of: turn) - turn.place + $0 }
        if !after.isEmpty { event.after = after }
        if let list = run.rows.name { (event.list, event.line) = (list, turn.row.line) }
        return event
    }

    /// The name of a request in lines, with its row.
    func label(_ turn: RunGraph.Turn) -> String {
        run.plan.requests[turn.place].label + (run.rows.name.map { " (\($0):\(turn.row.line))" } ?? "")
    }

    /// The line of a successful request.
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

    /// The file by its path in the output directory.
    private func name(of file: URL) -> String {
        let place = run.outputDirectory.path(percentEncoded: false)
        let directory = place.hasSuffix("/") ? place : place + "/"
        let path = file.path(percentEncoded: false)
        return path.hasPrefix(directory) ? String(path.dropFirst(directory.count)) : path
    }

    /// The number of attempts as text; empty if the request was not repeated.
    func tries(_ attempts: [AttemptRecord]) -> String {
        attempts.triedCount > 1 ? " (\(attempts.triedCount) attempts)" : ""
    }
}

extension String {
    /// The text with these values replaced, as written and percent-encoded.
    ///
    /// Values of up to three bytes, `true`, `false` and `null` are left out, because ordinary text contains them.
    func hiding(_ secrets: Set<String>) -> String {
        let plain = secrets.subtracting(["true", "false", "null"]).filter { $0.utf8.count > 3 }
        let encoded = plain.compactMap { $0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) }
        return plain.union(encoded).sorted { $0.utf8.count > $1.utf8.count }
            .reduce(self) { $0.replacing($1, with: "<redacted>") }
    }
}
