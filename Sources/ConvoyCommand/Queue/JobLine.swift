// A job as one line of text or JSON.
import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

enum JobLine {
    /// The job as one line: `ID  STATE  KIND  METHOD URL  result`.
    static func text(_ record: JobRecord) -> String {
        var parts = [record.job.id, record.state.rawValue, record.job.kind, record.job.request.description]
        if let failure = record.failure {
            parts.append(failure)
        } else if record.state == .blocked {
            parts += waits(record)
        } else if record.state == .waiting || record.state == .claimed, record.attemptCount > 0,
            let last = record.attempts.last
        {
            parts.append("\(Figures.count(record.attemptCount, "attempt")): \(last.text)")
        }
        let lapses = record.life.lapseCount
        if lapses > 0 { parts.append(JobLife.lapses(lapses)) }
        if let delay = record.delay, let due = due(record) {
            parts.append("due \(due.formatted(.iso8601)), in \(Figures.time(delay))")
        } else if record.state == .blocked, let date = record.job.notBefore, date > .now {
            parts.append("not before \(date.formatted(.iso8601))")
        }
        return parts.joined(separator: "  ").joinedLines
    }

    /// When the next attempt of a waiting job is due; nil if it is ready.
    private static func due(_ record: JobRecord) -> Date? {
        record.delay.map { delay in
            // The date of a job is exact, where its delay was measured a moment ago.
            let due = Date(timeIntervalSinceNow: delay.inSeconds)
            guard let date = record.job.notBefore, abs(date.timeIntervalSince(due)) < 1 else { return due }
            return date
        }
    }

    private static func waits(_ record: JobRecord) -> [String] {
        let holds = record.life.holds
        var waits: [String] = []
        if holds.dependencies > 0 { waits.append("after " + record.job.dependencies.prefix(8).joined(separator: ", ")) }
        if holds.isBehindGroup { waits.append("after others of the group \(record.job.group ?? "")") }
        if holds.isBehindKey { waits.append("after others with the key \(record.job.uniqueness?.key ?? "")") }
        return waits
    }

    static func json(_ status: QueueStatus) -> JSONValue {
        .object(
            status.counts.sorted { $0.key < $1.key }.map { kind, counts in
                let states = JobState.allCases.compactMap { state in
                    counts[state].map { (state.rawValue, JSONValue($0)) }
                }
                return (kind, .object(states))
            })
    }

    /// The job as JSON.
    ///
    /// - Parameter isWhole: whether to include the body, if the record has it, and to show query values whose names
    ///   indicate a secret.
    static func json(_ record: JobRecord, isWhole: Bool) -> JSONValue {
        let (job, request) = (record.job, record.job.request)
        var (body, encodedBody, file) = (String?.none, String?.none, String?.none)
        switch request.body {
        case .data(let data)? where isWhole:
            body = String(validating: data, as: UTF8.self)
            encodedBody = body == nil ? data.base64EncodedString() : nil
        case .file(let url)?: file = url.path
        case .data?, nil: break
        }
        return .members([
            "id": .string(job.id), "kind": .string(job.kind), "state": .string(record.state.rawValue),
            "method": .string(request.method.rawValue),
            "url": .string(isWhole ? request.url.absoluteString : request.url.redactedString),
            "header_fields": request.headerFields.isEmpty
                ? nil : .array(request.headerFields.map { [.string($0.name), .string($0.value)] }),
            "body": body.map(JSONValue.string), "body_base64": encodedBody.map(JSONValue.string),
            "body_file": file.map(JSONValue.string), "destination": (request.destination?.path).map(JSONValue.string),
            "priority": job.priority == .normal ? nil : JSONValue(job.priority.rawValue),
            "not_before": job.notBefore.map { JSONValue($0) }, "expires": job.expires.map { JSONValue($0) },
            "after": job.dependencies.isEmpty ? nil : JSONValue(job.dependencies),
            "key": (job.uniqueness?.key).map(JSONValue.string),
            "policy": (job.uniqueness?.policy.rawValue).map(JSONValue.string), "group": job.group.map(JSONValue.string),
            "tags": job.tags.isEmpty ? nil : JSONValue(job.tags.sorted()),
            "idempotency_key": .string(job.idempotencyKey), "added": JSONValue(record.added),
            "attempt_count": JSONValue(record.attemptCount),
            "attempts": record.attempts.isEmpty ? nil : .array(record.attempts.map(\.json)),
            "due": due(record).map { JSONValue($0) }, "delay_ms": record.delay.map { .integer($0.milliseconds) },
            "failure": record.failure.map(JSONValue.string),
        ])
    }
}

extension String {
    /// The text in one line, even if a server's text in it has line ends.
    var joinedLines: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

extension JobAttempt {
    /// A short text for the result of the attempt.
    var text: String { message ?? statusCode.map { "status \($0)" } ?? failure ?? "no result" }

    var json: JSONValue {
        .members([
            "started": JSONValue(started), "ms": .integer(milliseconds), "status": statusCode.map { JSONValue($0) },
            "code": failure.map(JSONValue.string), "message": message.map(JSONValue.string),
        ])
    }
}

extension Duration {
    /// The duration in milliseconds, without fractions.
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 1_000_000_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
