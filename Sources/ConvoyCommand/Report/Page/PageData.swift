import Convoy
import ConvoyHTTPFile
import Foundation

// Times are in microseconds; -1 means that a value does not apply. The time at which a request was queued is relative
// to the first request of its report. The start of an attempt is relative to the time at which its request was queued.
struct PageData {
    private let sides: [Report]
    private let made: Date

    init(_ sides: [Report], made: Date) { (self.sides, self.made) = (sides, made) }

    var text: String {
        var sums = ReportSums()
        for side in sides { sums.add(side.sums) }
        let paths = sides.map { CriticalPath($0.records) }
        let isComparison = sides.count > 1
        // Two reports have no common timeline, so the page has no critical path.
        let path = isComparison ? [] : paths.first?.places ?? []
        let records = sides.map(\.records)
        let page: JSONValue = [
            "title": .string(sides.first?.title ?? ""), "made": JSONValue(Int64(made.timeIntervalSince1970 * 1e6)),
            "start": .integer(sums.first ?? -1), "span": .integer(sides.map(\.sums.microseconds).max() ?? 0),
            "runs": .array(sides.flatMap(\.runs).map { .string($0.name) }),
            "remarks": .array(sides.flatMap(\.remarks).map(JSONValue.string)),
            "outcomes": .array(
                RequestRecord.Outcome.allCases.map { [.string($0.word), JSONValue(sums[$0])] }),
            "failures": .array(
                sums.failures.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
                    .map { [.string($0.key), JSONValue($0.value)] }),
            "requests": JSONValue(sums.requests), "rowless": JSONValue(sums.rowlessCount),
            "bytes": .integer(sums.bytes), "resumed": .integer(sums.resumedBytes),
            "attempts": JSONValue(sums.attempts), "retries": JSONValue(sums.retries),
            "redirects": JSONValue(sums.redirects),
            "path": .array(path.count > 1 ? path.map { JSONValue($0) } : []),
            "pathTime": .integer(isComparison ? 0 : paths.first?.microseconds ?? 0),
            "sides": .array(sides.map(side)),
            "comparison": isComparison
                ? comparison(ReportComparison(records[0], records[1]), offset: records[0].count) : [],
            "rows": .array(rows(paths)),
        ]
        return Self.safe(page.json)
    }

    private func side(_ report: Report) -> JSONValue {
        let sums = report.sums
        return [
            "name": .string(report.runs.first?.name ?? report.title), "runs": JSONValue(report.runs.count),
            "requests": JSONValue(sums.requests),
            "outcomes": .array(RequestRecord.Outcome.allCases.map { JSONValue(sums[$0]) }),
            "span": .integer(sums.microseconds), "bytes": .integer(sums.bytes),
            "retries": JSONValue(sums.retries), "redirects": JSONValue(sums.redirects),
        ]
    }

    private func rows(_ paths: [CriticalPath]) -> [JSONValue] {
        var (rows, runCount) = ([JSONValue](), 0)
        for (report, path) in zip(sides, paths) {
            let offset = rows.count
            let first = report.sums.first ?? 0
            for (place, record) in report.records.enumerated() {
                let blocker = path.blockers[place].map { $0 + offset }
                rows.append(row(record, run: record.run + runCount, first: first, blocker: blocker))
            }
            runCount += report.runs.count
        }
        return rows
    }

    /// JSON that cannot end an HTML element or a JavaScript line.
    static func safe(_ json: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(json.utf8.count)
        for byte in json.utf8 {
            switch byte {
            case UInt8(ascii: "<"): bytes += Array("\\u003c".utf8)
            case UInt8(ascii: ">"): bytes += Array("\\u003e".utf8)
            case UInt8(ascii: "&"): bytes += Array("\\u0026".utf8)
            default: bytes.append(byte)
            }
        }
        let text = String(decoding: bytes, as: UTF8.self)
        // 0xA8 and 0xA9 are the last bytes of U+2028 and U+2029, which end a line of JavaScript; 0xBF is the last byte
        // of U+FEFF.
        guard bytes.contains(where: { [0xA8, 0xA9, 0xBF].contains($0) }) else { return text }
        return text.unicodeScalars.reduce(into: "") { result, scalar in
            switch scalar {
            case "\u{2028}": result += "\\u2028"
            case "\u{2029}": result += "\\u2029"
            case "\u{FEFF}": result += "\\ufeff"
            default: result.unicodeScalars.append(scalar)
            }
        }
    }

    private func row(_ record: RequestRecord, run: Int, first: Int64, blocker: Int?) -> JSONValue {
        [
            JSONValue(run), JSONValue(record.index ?? -1), number(of: record.outcome),
            JSONValue(record.status ?? -1), .string(record.name), .string(record.method), .string(record.url),
            .string(record.code ?? ""), .string(record.message ?? ""), .integer(record.bytes),
            .integer(record.resumedBytes), JSONValue(record.attemptCount),
            .integer(record.queued.map { $0 - first } ?? -1), .integer(record.life), .integer(record.time ?? -1),
            JSONValue(blocker ?? -1), .string(record.head ?? ""),
            .string(record.cache?.rawValue ?? ""), .array(record.timeline.map(attempt)),
        ]
    }

    private func number(of outcome: RequestRecord.Outcome) -> JSONValue {
        JSONValue(RequestRecord.Outcome.allCases.firstIndex(of: outcome) ?? 0)
    }

    private func attempt(_ attempt: AttemptLine) -> JSONValue {
        let time = { (seconds: Double?) in JSONValue.integer(seconds.flatMap(\.microseconds) ?? -1) }
        return [
            time(attempt.start), time(attempt.lookup), time(attempt.connect), time(attempt.tls), time(attempt.wait),
            time(attempt.receive), JSONValue(attempt.status ?? -1), .string(attempt.code ?? ""),
            .string(attempt.next?.rawValue ?? ""), time(attempt.delay), .string(attempt.location ?? ""),
        ]
    }

    private func comparison(_ comparison: ReportComparison, offset: Int) -> JSONValue {
        // Further changed requests are only counted.
        func pairs(_ pairs: [ReportComparison.Pair]) -> JSONValue {
            .array(
                pairs.prefix(200).map {
                    [JSONValue($0.before), JSONValue($0.after + offset), .integer($0.difference ?? 0)]
                })
        }
        return [
            "pairs": JSONValue(comparison.pairCount), "onlyBefore": JSONValue(comparison.onlyBefore),
            "onlyAfter": JSONValue(comparison.onlyAfter),
            "brokenCount": JSONValue(comparison.broken.count), "broken": pairs(comparison.broken),
            "repairedCount": JSONValue(comparison.repaired.count), "repaired": pairs(comparison.repaired),
            "slowed": pairs(comparison.slowed),
        ]
    }
}
