import Convoy
import Foundation

struct RequestRecord: Equatable, Sendable {
    enum Outcome: String, CaseIterable, Sendable {
        case failed
        case unsent = "not sent"
        case unfinished
        case cancelled, succeeded
        case skipped

        var word: String { rawValue }
    }

    let run: Int
    let index: Int?
    let outcome: Outcome
    let name: String
    let method: String
    let url: String
    let status: Int?
    let code: String?
    let message: String?
    var head: String?
    let bytes: Int64
    let resumedBytes: Int64
    let attemptCount: Int
    let queued: Int64?
    let life: Int64
    let after: [Int]
    let cache: CacheOutcome?
    let timeline: [AttemptLine]

    init?(_ event: EventLine, run: Int) {
        switch event.event {
        case "started": outcome = .unfinished
        case "finished": outcome = .succeeded
        case "skipped": outcome = .skipped
        case "failed":
            outcome =
                switch event.code {
                case RequestError.Code.cancelled.rawValue: .cancelled
                case RequestError.Code.dependencyFailed.rawValue: .unsent
                default: .failed
                }
        default: return nil
        }
        (self.run, index, status, code) = (run, event.index, event.status, event.code)
        let place = event.list.map { list in event.line.map { "\(list), line \($0)" } ?? list }
        name = (event.name ?? place ?? "").withRedactedURLs
        method = event.method ?? ""
        url = event.url.map(SecretWords.standard.redacted(reference:)) ?? ""
        message = event.message?.withRedactedURLs
        head = event.head.map { String($0.joined(separator: "\n").prefix(1 << 14)) }
        resumedBytes = max(0, event.resumedBytes ?? 0)
        // The report counts only the bytes of successful requests.
        bytes = outcome == .succeeded ? max(0, (event.bytes ?? 0).subtractingSafely(resumedBytes)) : 0
        attemptCount = max(0, event.attempts ?? event.timeline?.count ?? 0)
        queued = event.queuedAt.flatMap(\.microseconds)
        life = event.lifeSeconds.flatMap(\.microseconds) ?? 0
        after = event.after ?? []
        cache = event.cache.flatMap(CacheOutcome.init)
        timeline = (event.timeline ?? []).map { attempt in
            var attempt = attempt
            attempt.location = attempt.location.map(SecretWords.standard.redacted(reference:))
            return attempt
        }
    }

    var ended: Int64? { queued.map { $0 + life } }
    var started: Int64? {
        guard let queued, let start = timeline.first?.start.microseconds else { return nil }
        return queued + start
    }
    /// Includes the waits before retries.
    var active: Int64 {
        guard let started, let ended else { return 0 }
        return max(0, ended - started)
    }
    /// For a segmented download, which has no attempts, the time from queueing to the end.
    var time: Int64? {
        guard queued != nil else { return nil }
        return timeline.isEmpty ? (outcome == .succeeded ? life : nil) : active
    }
    var retryCount: Int { timeline.count { $0.next == .retry } }
    var redirectCount: Int { timeline.count { $0.next == .redirect } }

    // The hash does not include the method, because a `started` event has none.
    var identity: Int { [name, url].hashValue }
}

extension Double {
    /// Seconds as integer microseconds; nil for a negative time, and from 10^11 seconds (a date after the year 5000).
    var microseconds: Int64? { self >= 0 && self < 1e11 ? Int64((self * 1e6).rounded()) : nil }
}

extension Int64 {
    fileprivate func subtractingSafely(_ other: Int64) -> Int64 {
        let (difference, isOver) = subtractingReportingOverflow(other)
        return isOver ? 0 : difference
    }
}

extension String {
    var withRedactedURLs: String {
        var (result, rest) = ("", self[...])
        while let url = rest.firstURL {
            result += rest[..<url.lowerBound] + SecretWords.standard.redacted(reference: String(rest[url]))
            rest = rest[url.upperBound...]
        }
        return result.isEmpty ? self : result + rest
    }
}

extension Substring {
    /// A loop is faster than a regular expression, which is compiled for each of up to 100,000 texts.
    fileprivate var firstURL: Range<Index>? {
        var place = startIndex
        while let colon = utf8[place...].firstIndex(of: UInt8(ascii: ":")) {
            place = utf8.index(after: colon)
            guard utf8[place...].starts(with: "//".utf8) else { continue }
            let start = utf8.index(place, offsetBy: 2)
            let end = unicodeScalars[start...].firstIndex(where: \.endsURL) ?? endIndex
            let scheme = utf8[..<colon].schemeSuffix
            if !scheme.isEmpty, end > start { return scheme.startIndex..<end }
        }
        return nil
    }
}

extension Substring.UTF8View {
    fileprivate var schemeSuffix: Substring.UTF8View {
        let start = lastIndex { !$0.isPartOfScheme }.map { index(after: $0) } ?? startIndex
        return self[start...].drop { !$0.isLetter }
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { (0x41...0x5A).contains(self & 0xDF) }
    fileprivate var isPartOfScheme: Bool { isLetter || (0x30...0x39).contains(self) || "+.-".utf8.contains(self) }
}

extension Unicode.Scalar {
    fileprivate var endsURL: Bool { properties.isWhitespace || "\"'<>‘’".unicodeScalars.contains(self) }
}
