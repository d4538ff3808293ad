// The outcome of a request as an event and as text.
import Convoy
import ConvoyHTTPFile

extension RunReport {
    /// The end of a request as an event.
    ///
    /// - Parameter defect: why the request failed, as this report words it; nil after a success or a cancellation.
    func event(_ place: Int, _ ending: Ending, _ defect: String?, _ isStopping: Bool) -> EventLine {
        let request = plan.requests[place]
        var event = EventLine(
            event: "finished", index: place, name: request.givenName, method: request.method, url: request.shownTarget)
        event.attempts = ending.attempts.triedCount
        event.cache = ending.attempts.cacheOutcome?.rawValue
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
            event.message = ending.secrets.hidden(in: error.message).visible()
            event.setAnswer(of: error, without: ending.secrets)
        }
        if event.code != nil { event.event = "failed" }
        if let defect { event.message = defect.visible() }
        let after = request.needs + request.follows
        if !after.isEmpty { event.after = after }
        event.setTimes(ending.span, ending.attempts, without: ending.secrets)
        return event
    }

    func line(_ request: PlannedRequest, _ response: Response<RunAnswer>, _ row: Row) -> String {
        let given = request.givenName
        // Without a name, the label is method and URL.
        let what = given == nil ? request.label : "\(request.method) \(request.shownTarget)"
        var name = given.map { "  (\($0))" } ?? ""
        if let rowsName { name += "  \(rowsName):\(row.line)" }
        let figures =
            "\(Figures.bytes(response.transfer.download.completedBytes)) in "
            + Figures.time(response.timings.executed ?? .zero) + (response.attempts.cacheOutcome?.words ?? "")
        var line = "\(response.statusCode)  \(what)\(name)  \(figures)"
        if case .file(let file) = response.value.body { line += "  saved \(file.lastPathComponent)" }
        return line
    }

    func reportFailure(_ request: PlannedRequest, _ label: String, _ message: String) {
        if isJSON { return }
        let place = "\(options.file):\(request.request.position.line)"
        console.printError("convoy: \(place): \(label): \(message)")
    }

    /// The message of an error, with the start of the response body, without the secrets that the request sent.
    func message(of error: RequestError, without secrets: SentSecrets) -> String {
        let own = secrets.hidden(in: error.message)
        guard error.code == .unacceptableStatus, let start = error.body?.prefix(4_096) else { return own }
        let body = String(decoding: start, as: UTF8.self)
        // The start of an HTML page does not explain the error.
        guard body.first(where: { !$0.isWhitespace }) != "<" else { return own }
        let words = secrets.hidden(in: body).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return words.isEmpty ? own : "\(own): \(words.clipped(toColumns: 160))"
    }
}
