// Makes event lines of the steps and ends of downloads.
import Convoy

extension EventLine {
    /// Makes the event line of a step of a request.
    init(_ step: FetchStep, index: Int, name: String? = nil, url: String) {
        self.init(event: "started", index: index, name: name, url: url)
        switch step {
        case .started: break
        case .redirected(let statusCode, let target):
            event = "redirect"
            status = statusCode
            location = target
        case .retrying(let attempt, let failure, let statusCode, _, let delay):
            event = "retry"
            self.attempt = attempt
            code = (failure ?? .unacceptableStatus).rawValue
            status = statusCode
            delaySeconds = delay.roundedSeconds
        }
    }

    /// Makes the event line of a download's end.
    ///
    /// - Parameter directory: the output directory, which precedes the file name; nil if no files are written.
    init(_ outcome: FetchOutcome, directory: String?) {
        self.init(event: "finished", index: outcome.item.index, url: outcome.item.url.redactedString)
        method = outcome.attempts.first?.method.rawValue
        cache = outcome.attempts.cacheOutcome?.rawValue
        let path = { () -> String? in
            let name = outcome.fileName
            return directory.map { name.hasPrefix("/") ? name : $0.hasSuffix("/") ? $0 + name : "\($0)/\(name)" }
        }
        switch outcome.result {
        case .success(let success) where success.isSkipped:
            event = "skipped"
            if success.hasFile { file = path() }
        case .success(let success):
            attempts = outcome.attemptCount
            status = success.statusCode
            bytes = success.bytes
            resumedBytes = success.resumedBytes.positive
            seconds = success.time.roundedSeconds
            file = path()
        case .failure(let error):
            event = "failed"
            attempts = outcome.attemptCount
            keptBytes = outcome.keptBytes
            status = error.response?.statusCode
            code = error.code.rawValue
            message = outcome.message?.visible()
            seconds = outcome.attempts.first.map { (outcome.span.ended - $0.started).roundedSeconds }
            setAnswer(of: error)
        }
        // A file that was skipped without a request has no times.
        if event != "skipped" || method != nil { setTimes(outcome.span, outcome.attempts) }
    }

    /// Makes the event line of a list entry that did not become a request.
    init(_ defect: FetchItems.Defect) {
        self.init(
            event: "failed", list: defect.list, line: defect.line, code: defect.code, message: defect.reason.visible())
    }
}
