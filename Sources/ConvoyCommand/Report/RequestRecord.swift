// One request as a report shows it.
import Convoy
import Foundation

/// One request of a run, made of the line that told its end; without secrets.
struct RequestRecord: Equatable, Sendable {
    /// How it ended; in the order of a report: what has to be looked at comes first.
    enum Outcome: Int, CaseIterable, Sendable {
        case failed
        /// Another that it needs had failed.
        case unsent
        /// The run was killed before its end was told.
        case unfinished
        case cancelled
        case succeeded
        /// Nothing had to be received.
        case skipped

        var word: String {
            switch self {
            case .failed: "failed"
            case .unsent: "not sent"
            case .unfinished: "unfinished"
            case .cancelled: "cancelled"
            case .succeeded: "succeeded"
            case .skipped: "skipped"
            }
        }
    }

    /// The number of the run, from 0.
    let run: Int
    /// Its place in the run; nil for what did not become a request.
    let index: Int?
    let outcome: Outcome
    let name: String
    let method: String
    let url: String
    let status: Int?
    let code: String?
    let message: String?
    /// The head of a refusal, a field a line.
    var head: String?
    /// The text of a refusal.
    var body: String?
    /// What was received.
    let bytes: Int64
    let resumedBytes: Int64
    let attemptCount: Int
    /// Microseconds since 1970; nil where no time was told.
    let queued: Int64?
    /// Microseconds from there.
    let life: Int64
    /// The indices of those it waited for.
    let after: [Int]
    let timeline: [AttemptLine]

    /// Nil for an event that is no request's.
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
        url = event.url.map(HARRecorder.redacted) ?? ""
        message = event.message?.withRedactedURLs
        head = event.head.map { String($0.joined(separator: "\n").prefix(1 << 14)) }
        body = event.body.map { String($0.prefix(1 << 16)) }
        resumedBytes = max(0, event.resumedBytes ?? 0)
        // That of failures is part of no file.
        bytes = outcome == .succeeded ? max(0, (event.bytes ?? 0).subtractingSafely(resumedBytes)) : 0
        attemptCount = max(0, event.attempts ?? event.timeline?.count ?? 0)
        queued = event.queuedAt.flatMap(\.microseconds)
        life = event.lifeSeconds.flatMap(\.microseconds) ?? 0
        after = event.after ?? []
        timeline = (event.timeline ?? []).map { attempt in
            var attempt = attempt
            attempt.location = attempt.location.map(HARRecorder.redacted)
            return attempt
        }
    }

    var ended: Int64? { queued.map { $0 + life } }
    /// When the first attempt began.
    var started: Int64? {
        guard let queued, let start = timeline.first?.start.microseconds else { return nil }
        return queued + start
    }
    /// How long it was under way, waits between attempts included; 0 where nothing was sent.
    var active: Int64 {
        guard let started, let ended else { return 0 }
        return max(0, ended - started)
    }
    /// How long it took, in microseconds, from its first attempt on; nil where nothing was sent, or no time was told.
    ///
    /// A download in segments tells no attempts: there it is the life of the request.
    var time: Int64? {
        guard queued != nil else { return nil }
        return timeline.isEmpty ? (outcome == .succeeded ? life : nil) : active
    }
    var retryCount: Int { timeline.count { $0.next == .retry } }
    var redirectCount: Int { timeline.count { $0.next == .redirect } }
}

extension RequestRecord {
    /// What was asked for, the same in every run; a start tells no method.
    var identity: Int {
        var hasher = Hasher()
        hasher.combine(name)
        hasher.combine(url)
        return hasher.finalize()
    }
}

extension Double {
    /// Seconds in whole microseconds; nil for what is no time: negative, or beyond the year 5000.
    var microseconds: Int64? { self >= 0 && self < 1e11 ? Int64((self * 1e6).rounded()) : nil }
}

extension Int64 {
    fileprivate func subtractingSafely(_ other: Int64) -> Int64 {
        let (difference, isOver) = subtractingReportingOverflow(other)
        return isOver ? 0 : difference
    }
}

extension String {
    /// The text with the URLs in it shown as they are recorded.
    var withRedactedURLs: String {
        guard contains("://") else { return self }
        return replacing(#/[A-Za-z][A-Za-z0-9+.\-]*:\/\/[^\s"'<>‘’]+/#) { HARRecorder.redacted(String($0.output)) }
    }
}
