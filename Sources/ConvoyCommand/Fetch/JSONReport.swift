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
    var expectedBytes: Int64?
    var seconds: Double?
    var attempt: Int?
    var attempts: Int?
    var delaySeconds: Double?
    var location: String?
    var code: String?
    var message: String?
    var succeeded: Int?
    var failed: Int?
    var cancelled: Int?
    var exitStatus: Int32?

    enum CodingKeys: String, CodingKey {
        case event, index, url, list, line, file, status, bytes, seconds, attempt, attempts, location, code, message
        case succeeded, failed, cancelled
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
        case .retrying(let attempt, let failure, let statusCode, let delay):
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
                    expectedBytes: transfer.expectedBytes))
        }
    }

    func finished(_ outcome: FetchOutcome) {
        let item = outcome.item
        var event = FetchEvent(event: "finished", index: item.index, url: item.url.withoutCredentials)
        event.attempts = outcome.attemptCount
        switch outcome.result {
        case .success(let success):
            event.status = success.statusCode
            event.bytes = success.bytes
            event.seconds = success.time.roundedSeconds
            event.file = directory.map { $0.hasSuffix("/") ? $0 + item.fileName : "\($0)/\(item.fileName)" }
        case .failure(let error):
            event.event = "failed"
            event.status = error.response?.statusCode
            event.code = error.code.rawValue
            event.message = error.message.visible()
            event.seconds = outcome.attempts.first.map { (ContinuousClock.now - $0.started).roundedSeconds }
        }
        tell(event)
    }

    func isDefective(_ defect: FetchItems.Defect) {
        tell(
            FetchEvent(
                event: "failed", list: defect.list, line: defect.line,
                code: defect.line == nil ? "unreadableList" : "invalidRequest", message: defect.reason.visible()))
    }

    func ended(_ summary: FetchSummary) {
        tell(
            FetchEvent(
                event: "summary", bytes: summary.bytes, seconds: summary.time.roundedSeconds,
                succeeded: summary.succeededCount, failed: summary.failedCount, cancelled: summary.cancelledCount,
                exitStatus: summary.status.code))
    }

    private func tell(_ event: FetchEvent) { console.printLine(event.jsonLine) }
}

extension Duration {
    /// Seconds, to the microsecond.
    fileprivate var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}
