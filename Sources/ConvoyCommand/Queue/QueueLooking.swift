import Convoy
import ConvoyHTTPFile
import ConvoyQueue
import Foundation

struct QueueLooking: QueueWork {
    private static let page = 500

    let options: QueueOptions
    let console: Console
    let interruption: Interruption

    func work(on store: any Store) async throws(QueueError) -> ExitStatus {
        switch options.verb {
        case .status: tell(try await store.status())
        case .list:
            return try await forEach(on: store) { record throws(QueueError) in
                options.fetch.isJSON ? JobLine.json(record, isWhole: false).json : JobLine.text(record)
            }
        case .export:
            // Reads each job again, because a list of jobs contains no bodies.
            return try await forEach(on: store) { record throws(QueueError) in
                try await store.job(record.job.id).map { JobLine.json($0, isWhole: true).json }
            }
        case .why:
            // The queue is never started, because `why` sends no job.
            let queue = DurableQueue(store: store, manager: RequestManager())
            return try await forEach(on: store) { record throws(QueueError) in
                let (id, text) = (record.job.id, try await queue.why(record.job.id))
                let json: JSONValue = ["id": .string(id), "why": .string(text)]
                return options.fetch.isJSON ? json.json : "\(id)  \(text)".joinedLines
            }
        case .retry: return tell(try await store.retry(options.selection), "sent again", "dead letter")
        case .cancel: return tell(try await store.cancel(options.selection), "cancelled", "job that can be cancelled")
        case .delete: return tell(try await store.delete(options.selection), "deleted", "finished job")
        case .add, .run: break
        }
        return .success
    }

    private func forEach(
        on store: any Store, _ line: (JobRecord) async throws(QueueError) -> String?
    ) async throws(QueueError) -> ExitStatus {
        var (position, rest, missing) = (Int64(0), options.limit, options.selection.ids ?? [])
        while rest > 0, interruption.reason == nil {
            let records = try await store.jobs(options.selection, after: position, limit: min(rest, Self.page))
            guard let last = records.last else {
                let what = options.selection == JobSelection(ids: options.selection.ids) ? "job" : "selected job"
                for id in missing.sorted() { console.printError("convoy: no \(what) has the id \(id.shownID)") }
                return missing.isEmpty ? .success : .failure
            }
            for record in records where interruption.reason == nil {
                missing.remove(record.job.id)
                if let line = try await line(record) { console.printLine(line) }
            }
            (position, rest) = (last.position, rest - records.count)
        }
        return .success
    }

    private func tell(_ count: Int, _ what: String, _ wanted: String) -> ExitStatus {
        if options.fetch.isJSON {
            console.printLine("{\"count\":\(count)}")
        } else {
            console.printLine("\(Figures.count(count, "job")) \(what)")
        }
        guard count == 0, options.selection.ids != nil else { return .success }
        console.printError("convoy: no \(wanted) has such an id; convoy queue list shows all jobs")
        return .failure
    }

    private func tell(_ status: QueueStatus) {
        guard !options.fetch.isJSON else { return console.printLine(JobLine.json(status).json) }
        let kinds = status.counts.keys.sorted()
        let states = JobState.allCases.filter { status[$0] > 0 }
        guard !states.isEmpty else { return console.printLine("no jobs") }
        var rows = [["kind"] + states.map(\.rawValue)]
        for kind in kinds { rows.append([kind] + states.map { "\(status.counts[kind]?[$0] ?? 0)" }) }
        if kinds.count > 1 { rows.append(["all"] + states.map { "\(status[$0])" }) }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        for row in rows {
            let cells = zip(row, widths).enumerated().map { column, cell in
                let gap = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 0 ? cell.0 + gap : gap + cell.0
            }
            console.printLine(cells.joined(separator: "  "))
        }
    }
}

enum JobLine {
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

    /// Without `isWhole`, query values whose names indicate a secret are hidden.
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
    var joinedLines: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

extension JobAttempt {
    var text: String { message ?? statusCode.map { "status \($0)" } ?? failure ?? "no result" }

    var json: JSONValue {
        .members([
            "started": JSONValue(started), "ms": .integer(milliseconds), "status": statusCode.map { JSONValue($0) },
            "code": failure.map(JSONValue.string), "message": message.map(JSONValue.string),
        ])
    }
}

extension Duration {
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 1_000_000_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
