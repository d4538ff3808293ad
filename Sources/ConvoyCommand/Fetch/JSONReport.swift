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
    var code: String?
    var message: String?
    var succeeded: Int?
    var failed: Int?
    var cancelled: Int?
    var exitStatus: Int32?

    enum CodingKeys: String, CodingKey {
        case event, index, url, list, line, file, status, bytes, seconds, code, message, succeeded, failed, cancelled
        case expectedBytes = "expected_bytes"
        case exitStatus = "exit_status"
    }

    /// The event in one line, its keys in order of the alphabet.
    var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}

/// One JSON object a line on standard output; a started request's events come in order.
final class JSONReport: FetchReport {
    private let console: Console
    private let directory: String?
    /// The requests whose start has been told and whose end has not, with the bytes told last.
    private let told = Locked<[Int: Int64]>([:])

    /// - Parameter directory: what file names are given relative to; nil when there are no files.
    init(console: Console, directory: String?) {
        self.console = console
        self.directory = directory
    }

    var tickInterval: DispatchTimeInterval? { .milliseconds(500) }
    var wantsStarts: Bool { true }

    func started(_ item: FetchItem) {
        told.withLock { told in
            told[item.index] = 0
            tellStart(item)
        }
    }

    func tick(_ progress: RunProgress, _ running: [RunningTransfer]) {
        told.withLock { told in
            for transfer in running {
                guard let bytes = told[transfer.item.index], bytes != transfer.receivedBytes else { continue }
                told[transfer.item.index] = transfer.receivedBytes
                tell(
                    FetchEvent(
                        event: "progress", index: transfer.item.index, bytes: transfer.receivedBytes,
                        expectedBytes: transfer.expectedBytes))
            }
        }
    }

    func finished(_ outcome: FetchOutcome) {
        let item = outcome.item
        var event = FetchEvent(event: "finished", index: item.index, url: item.url.withoutCredentials)
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
            event.seconds = item.started.map { (ContinuousClock.now - $0).roundedSeconds }
        }
        told.withLock { told in
            // The start is told on another queue and may be late.
            if told.removeValue(forKey: item.index) == nil, event.event == "finished" { tellStart(item) }
            tell(event)
        }
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

    private func tellStart(_ item: FetchItem) {
        tell(FetchEvent(event: "started", index: item.index, url: item.url.withoutCredentials))
    }

    private func tell(_ event: FetchEvent) { console.printLine(event.jsonLine) }
}

extension Duration {
    /// Seconds, to the microsecond.
    fileprivate var roundedSeconds: Double { (inSeconds * 1e6).rounded() / 1e6 }
}
