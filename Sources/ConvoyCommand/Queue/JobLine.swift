// A job as one line of text or JSON.
import Convoy
import ConvoyQueue
import Foundation

enum JobLine {
    /// `ID  STATE  KIND  METHOD URL  result`.
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
        if lapses > 0 { parts.append("its process ended \(Figures.count(lapses, "time")) before the job had") }
        if let delay = record.delay { parts.append("in \(Figures.time(delay))") }
        // A job is always one line, even if a server's text has line ends.
        return parts.joined(separator: "  ").split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    private static func waits(_ record: JobRecord) -> [String] {
        let holds = record.life.holds
        var waits: [String] = []
        if holds.dependencies > 0 { waits.append("after " + record.job.dependencies.prefix(8).joined(separator: ", ")) }
        if holds.isBehindGroup { waits.append("behind others of the group \(record.job.group ?? "")") }
        if holds.isBehindKey { waits.append("behind others with the key \(record.job.uniqueness?.key ?? "")") }
        return waits
    }

    static func json(_ status: QueueStatus) -> JSONValue {
        .object(
            status.counts.sorted { $0.key < $1.key }.map { kind, counts in
                let states = JobState.allCases.compactMap { state in
                    counts[state].map { (state.rawValue, JSONValue.integer(Int64($0))) }
                }
                return (kind, .object(states))
            })
    }

    /// - Parameter isWhole: whether to include the bytes of the body, if the store has them, and query values whose
    ///   names indicate a secret.
    static func json(_ record: JobRecord, isWhole: Bool) -> JSONValue {
        let job = record.job
        var members: [(String, JSONValue)] = [
            ("id", .string(job.id)), ("kind", .string(job.kind)), ("state", .string(record.state.rawValue)),
            ("method", .string(job.request.method.rawValue)),
            ("url", .string(isWhole ? job.request.url.absoluteString : job.request.url.redactedString)),
        ]
        func add(_ name: String, _ value: String?) {
            if let value { members.append((name, .string(value))) }
        }
        func add(_ name: String, _ date: Date?) { add(name, date.map { $0.formatted(.iso8601) }) }
        if !job.request.headerFields.isEmpty {
            members.append(
                ("header_fields", .array(job.request.headerFields.map { [.string($0.name), .string($0.value)] })))
        }
        switch job.request.body {
        case .data(let data)? where isWhole:
            if let text = String(validating: data, as: UTF8.self) {
                add("body", text)
            } else {
                add("body_base64", data.base64EncodedString())
            }
        case .file(let file)?: add("body_file", file.path)
        case .data?, nil: break
        }
        add("destination", job.request.destination?.path)
        if job.priority != .normal { members.append(("priority", .integer(Int64(job.priority.rawValue)))) }
        add("not_before", job.notBefore)
        add("expires", job.expires)
        if !job.dependencies.isEmpty { members.append(("after", .array(job.dependencies.map(JSONValue.string)))) }
        add("key", job.uniqueness?.key)
        add("policy", job.uniqueness?.policy.rawValue)
        add("group", job.group)
        if !job.tags.isEmpty { members.append(("tags", .array(job.tags.sorted().map(JSONValue.string)))) }
        add("idempotency_key", job.idempotencyKey)
        add("added", record.added)
        members.append(("attempt_count", .integer(Int64(record.attemptCount))))
        if !record.attempts.isEmpty { members.append(("attempts", .array(record.attempts.map(\.json)))) }
        if let delay = record.delay { members.append(("delay_ms", .integer(delay.milliseconds))) }
        add("failure", record.failure)
        return .object(members)
    }
}

extension JobAttempt {
    /// A short text for its result.
    var text: String { message ?? statusCode.map { "status \($0)" } ?? failure ?? "nothing" }

    var json: JSONValue {
        var members: [(String, JSONValue)] = [
            ("started", .string(started.formatted(.iso8601))), ("ms", .integer(milliseconds)),
        ]
        if let statusCode { members.append(("status", .integer(Int64(statusCode)))) }
        if let failure { members.append(("code", .string(failure))) }
        if let message { members.append(("message", .string(message))) }
        return .object(members)
    }
}

extension Duration {
    /// Whole milliseconds.
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 1_000_000_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
