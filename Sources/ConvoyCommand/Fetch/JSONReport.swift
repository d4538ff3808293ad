import Convoy
import Foundation

final class JSONReport: FetchReport {
    private let console: Console
    private let directory: String?
    // Only a file whose number has changed is reported.
    private let receivedBytes = Locked<[Int: Int64]>([:])

    init(console: Console, directory: String?) { (self.console, self.directory) = (console, directory) }

    var tickInterval: DispatchTimeInterval? { .milliseconds(500) }
    var wantsSteps: Bool { true }
    var wantsCancelled: Bool { true }

    func happened(_ step: FetchStep, to item: FetchItem) {
        tell(EventLine(step, index: item.index, url: item.url.redactedString))
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let earlier = receivedBytes.withLock { bytes in
            defer { bytes = running.reduce(into: [:]) { $0[$1.item.index] = $1.receivedBytes } }
            return bytes
        }
        for transfer in running where transfer.receivedBytes != earlier[transfer.item.index] ?? 0 {
            tell(
                EventLine(
                    event: "progress", index: transfer.item.index, bytes: transfer.receivedBytes,
                    resumedBytes: transfer.resumedBytes.positive, expectedBytes: transfer.expectedBytes))
        }
    }

    func finished(_ outcome: FetchOutcome) { tell(EventLine(outcome, directory: directory)) }

    func isDefective(_ defect: FetchItems.Defect) { tell(EventLine(defect)) }

    func ended(_ summary: FetchSummary) {
        tell(
            EventLine(
                event: "summary", bytes: summary.bytes, resumedBytes: summary.resumedBytes,
                keptBytes: summary.kept.bytes, seconds: summary.time.roundedSeconds, succeeded: summary.succeededCount,
                skipped: summary.skippedCount, failed: summary.failedCount, failures: summary.failures,
                cancelled: summary.cancelledCount, keptFiles: summary.kept.count, exitStatus: summary.status.code))
    }

    private func tell(_ event: EventLine) { console.printLine(event.jsonLine) }
}

extension EventLine {
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

    init(_ defect: FetchItems.Defect) {
        self.init(
            event: "failed", list: defect.list, line: defect.line, code: defect.code, message: defect.reason.visible())
    }
}
