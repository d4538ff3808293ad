// The requests as the script of the page reads them.
import Convoy
import Foundation

/// A report as JSON that may stand in an element of HTML.
///
/// Times are microseconds, those of requests since the first was taken; -1 stands for what does not apply.
struct PageData {
    private let report: Report
    private let made: Date

    init(_ report: Report, made: Date) { (self.report, self.made) = (report, made) }

    var text: String {
        let path = CriticalPath(report.records)
        let sums = report.sums
        let records = report.records.enumerated().map { row($1, blocker: path.blockers[$0]) }
        let page: JSONValue = [
            "title": .string(report.title), "made": .integer(Int64(made.timeIntervalSince1970 * 1e6)),
            "start": .integer(sums.first ?? -1), "span": .integer(sums.microseconds),
            "runs": .array(report.runs.map { .string($0.name) }),
            "remarks": .array(report.remarks.map(JSONValue.string)),
            "outcomes": .array(
                RequestRecord.Outcome.allCases.map { [.string($0.word), .integer(Int64(sums[$0]))] }),
            "failures": .array(
                sums.failures.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
                    .map { [.string($0.key), .integer(Int64($0.value))] }),
            "requests": .integer(Int64(sums.requests)), "rowless": .integer(Int64(sums.rowlessCount)),
            "bytes": .integer(sums.bytes), "resumed": .integer(sums.resumedBytes),
            "attempts": .integer(Int64(sums.attempts)), "retries": .integer(Int64(sums.retries)),
            "redirects": .integer(Int64(sums.redirects)),
            "path": .array(path.places.count > 1 ? path.places.map { .integer(Int64($0)) } : []),
            "pathTime": .integer(path.microseconds), "rows": .array(records),
        ]
        return Self.safe(page.json)
    }

    /// JSON that ends no element, and no line of JavaScript.
    static func safe(_ json: String) -> String {
        var text = ""
        text.reserveCapacity(json.utf8.count)
        for scalar in json.unicodeScalars {
            switch scalar {
            case "<", ">", "&", "\u{2028}", "\u{2029}", "\u{FEFF}":
                let hex = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The order is that of `fields` in the script.
    private func row(_ record: RequestRecord, blocker: Int?) -> JSONValue {
        let queued = record.queued.map { $0 - (report.sums.first ?? 0) } ?? -1
        return [
            .integer(Int64(record.run)), .integer(Int64(record.index ?? -1)), .integer(Int64(record.outcome.rawValue)),
            .integer(Int64(record.status ?? -1)), .string(record.name), .string(record.method), .string(record.url),
            .string(record.code ?? ""), .string(record.message ?? ""), .integer(record.bytes),
            .integer(record.resumedBytes), .integer(Int64(record.attemptCount)), .integer(queued),
            .integer(record.life), .integer(Int64(blocker ?? -1)), .string(record.body ?? ""),
            .array(record.timeline.map(attempt)),
        ]
    }

    /// The order is that of `attemptFields` in the script.
    private func attempt(_ attempt: AttemptLine) -> JSONValue {
        let time = { (seconds: Double?) in JSONValue.integer(seconds.flatMap(\.microseconds) ?? -1) }
        return [
            time(attempt.start), time(attempt.lookup), time(attempt.connect), time(attempt.tls), time(attempt.wait),
            time(attempt.receive), .integer(Int64(attempt.status ?? -1)), .string(attempt.code ?? ""),
            .string(attempt.next?.rawValue ?? ""), time(attempt.delay), .string(attempt.location ?? ""),
        ]
    }
}
