// The report for programs.
import Convoy
import Foundation

/// One event of a run, as it is printed: the keys that do not apply are left out.
struct FetchEvent: Encodable, Equatable {
    var event: String
    var index: Int?
    var url: String?
    var list: String?
    var line: Int?
    var file: String?
    var status: Int?
    var bytes: Int64?
    var resumedBytes: Int64?
    var keptBytes: Int64?
    var expectedBytes: Int64?
    var seconds: Double?
    var attempt: Int?
    var attempts: Int?
    var delaySeconds: Double?
    var location: String?
    var code: String?
    var message: String?
    var succeeded: Int?
    var skipped: Int?
    var failed: Int?
    var failures: [String: Int]?
    var cancelled: Int?
    var keptFiles: Int?
    var exitStatus: Int32?

    enum CodingKeys: String, CodingKey {
        case event, index, url, list, line, file, status, bytes, seconds, attempt, attempts, location, code, message
        case succeeded, skipped, failed, failures, cancelled
        case resumedBytes = "resumed_bytes"
        case keptBytes = "kept_bytes"
        case keptFiles = "kept_files"
        case expectedBytes = "expected_bytes"
        case delaySeconds = "delay_seconds"
        case exitStatus = "exit_status"
    }

    /// The event in one line, its keys in order of the alphabet.
    var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}

/// One JSON object a line on standard output; the help lists them all.
final class JSONReport: FetchReport {
    private let console: Console
    private let directory: String?
    /// What the last tick found, to tell only what has moved.
    private let receivedBytes = Locked<[Int: Int64]>([:])

    /// - Parameter directory: what file names are given relative to; nil when there are no files.
    init(console: Console, directory: String?) {
        self.console = console
        self.directory = directory
    }

    var tickInterval: DispatchTimeInterval? { .milliseconds(500) }
    var wantsSteps: Bool { true }
    var wantsCancelled: Bool { true }

    func happened(_ step: FetchStep, to item: FetchItem) {
        var event = FetchEvent(event: "started", index: item.index, url: item.url.withoutCredentials)
        switch step {
        case .started: break
        case .redirected(let statusCode, let target):
            event.event = "redirect"
            event.status = statusCode
            event.location = target.withoutCredentials
        case .retrying(let attempt, let failure, let statusCode, _, let delay):
            event.event = "retry"
            event.attempt = attempt
            event.code = (failure ?? .unacceptableStatus).rawValue
            event.status = statusCode
            event.delaySeconds = delay.roundedSeconds
        }
        tell(event)
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        let earlier = receivedBytes.withLock { bytes in
            defer { bytes = running.reduce(into: [:]) { $0[$1.item.index] = $1.receivedBytes } }
            return bytes
        }
        for transfer in running where transfer.receivedBytes != earlier[transfer.item.index] ?? 0 {
            tell(
                FetchEvent(
                    event: "progress", index: transfer.item.index, bytes: transfer.receivedBytes,
                    resumedBytes: transfer.resumedBytes.positive, expectedBytes: transfer.expectedBytes))
        }
    }

    func finished(_ outcome: FetchOutcome) {
        let item = outcome.item
        var event = FetchEvent(event: "finished", index: item.index, url: item.url.withoutCredentials)
        switch outcome.result {
        case .success(let success) where success.isSkipped:
            event.event = "skipped"
            if success.hasFile { event.file = path(of: outcome, success) }
        case .success(let success):
            event.attempts = outcome.attemptCount
            event.status = success.statusCode
            event.bytes = success.bytes
            event.resumedBytes = success.resumedBytes.positive
            event.seconds = success.time.roundedSeconds
            event.file = path(of: outcome, success)
        case .failure(let error):
            event.event = "failed"
            event.attempts = outcome.attemptCount
            event.keptBytes = outcome.keptBytes
            event.status = error.response?.statusCode
            event.code = error.code.rawValue
            event.message = outcome.message?.visible()
            event.seconds = outcome.attempts.first.map { (ContinuousClock.now - $0.started).roundedSeconds }
        }
        tell(event)
    }

    func isDefective(_ defect: FetchItems.Defect) {
        tell(
            FetchEvent(
                event: "failed", list: defect.list, line: defect.line,
                code: defect.code, message: defect.reason.visible()))
    }

    func ended(_ summary: FetchSummary) {
        var event = FetchEvent(event: "summary", bytes: summary.bytes, resumedBytes: summary.resumedBytes)
        event.seconds = summary.time.roundedSeconds
        event.succeeded = summary.succeededCount
        event.skipped = summary.skippedCount
        event.failed = summary.failedCount
        event.failures = summary.failures
        event.cancelled = summary.cancelledCount
        event.keptFiles = summary.kept.count
        event.keptBytes = summary.kept.bytes
        event.exitStatus = summary.status.code
        tell(event)
    }

    private func path(of outcome: FetchOutcome, _ success: FetchOutcome.Success) -> String? {
        let name = success.fileName ?? outcome.item.fileName
        return directory.map { $0.hasSuffix("/") ? $0 + name : "\($0)/\(name)" }
    }

    private func tell(_ event: FetchEvent) { console.printLine(event.jsonLine) }
}

extension Duration {
    /// Seconds, to the microsecond.
    fileprivate var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}

extension Int64 {
    /// The number where there is something to count.
    fileprivate var positive: Int64? { self > 0 ? self : nil }
}
