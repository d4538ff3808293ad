import Convoy
import ConvoyQueue
import Foundation

enum PostgresJobs {
    // Returns id and position of each added job. Without a given time, the server's time counts.
    static func insertion(of jobs: [Job], _ number: String, _ given: PostgresTime?) throws -> PostgresStatement {
        // The condition is a subquery instead of a join, because the planner would run the join once for each row.
        let isNew = "(position IN (SELECT position FROM new)) IS TRUE"
        return PostgresStatement(
            """
            WITH given AS MATERIALIZED (
                SELECT nextval('convoy_positions') AS position, g.* FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
                    $12, $13, $14, $15, $16, $17, $18, $19) AS g(id, kind, priority, not_before, expires, group_name,
                    unique_key, has_body, host, method, url, header_fields, body_file, destination, policy, tags,
                    idempotency_key, follows_as_get, body)),
            clock AS MATERIALIZED (SELECT \(PostgresRules.date(20)) AS date),
            new AS (
                INSERT INTO convoy_jobs (position, id, kind, priority, not_before, expires, group_name, unique_key,
                    has_body, host, state, added)
                SELECT position, id, kind, priority, CASE WHEN not_before > clock.date THEN not_before END, expires,
                    group_name, unique_key, has_body, host, 0, clock.date
                FROM given, clock ORDER BY position ON CONFLICT (id) DO NOTHING RETURNING id, position),
            contents AS (
                INSERT INTO convoy_contents (position, method, url, header_fields, body_file, destination, not_before,
                    policy, tags, idempotency_key, follows_as_get)
                SELECT position, method, url, header_fields, body_file, destination, not_before, policy,
                    coalesce(string_to_array(tags, E'\\n'), '{}'), idempotency_key, follows_as_get
                FROM given WHERE \(isNew)),
            bodies AS (
                INSERT INTO convoy_bodies (position, body)
                SELECT position, body FROM given WHERE body IS NOT NULL AND \(isNew)),
            noted AS (
                UPDATE convoy_commits SET positions = (SELECT array_agg(position) FROM new) WHERE number = $21)
            SELECT id, position FROM new
            """,
            [
                .texts(jobs.map(\.id)), .texts(jobs.map(\.kind)), .ints(jobs.map { Int64($0.priority.rawValue) }),
                .doubles(jobs.map { date($0.notBefore) }), .doubles(jobs.map { date($0.expires) }),
                .texts(jobs.map(\.group)), .texts(jobs.map { $0.uniqueness?.key }),
                .bools(jobs.map { $0.request.body?.data != nil }), .texts(jobs.map(\.request.host)),
                .texts(jobs.map(\.request.method.rawValue)), .texts(jobs.map(\.request.url.absoluteString)),
                .texts(try jobs.map { try text(of: $0.request.headerFields) }),
                .texts(jobs.map { $0.request.body?.file?.path }),
                .texts(jobs.map { $0.request.destination?.path }),
                .texts(jobs.map { $0.uniqueness?.policy.rawValue }),
                .texts(jobs.map { $0.tags.isEmpty ? nil : $0.tags.sorted().joined(separator: "\n") }),
                .texts(jobs.map(\.idempotencyKey)), .bools(jobs.map(\.request.followsRedirectsAsGet)),
                .blobs(jobs.map(\.request.body?.data)), .double(given?.date), .text(number),
            ])
    }

    private static func date(_ date: Date?) -> Double? {
        date.map { max(-1e11, min(1e11, $0.timeIntervalSinceReferenceDate)) }
    }

    static func text(of fields: HeaderFields) throws -> String {
        guard !fields.isEmpty else { return none }
        return String(decoding: try JSONEncoder().encode(fields.map { [$0.name, $0.value] }), as: UTF8.self)
    }

    // Most jobs have no header fields. For them, no JSON is encoded or decoded, which would take as long as the rest
    // of the row.
    private static let none = "[]"

    static func headerFields(_ text: String?) throws -> HeaderFields {
        var fields: HeaderFields = [:]
        guard let text, text != none else { return fields }
        for pair in try JSONDecoder().decode([[String]].self, from: Data(text.utf8)) {
            if let name = pair.first, let value = pair.last { fields.add(name, value) }
        }
        return fields
    }
}

struct PostgresJobRow {
    static let columnCount = 29

    static func columns(withBody: Bool) -> String {
        """
        j.position, j.id, j.kind, j.state, j.priority, j.expires, j.group_name, j.unique_key, j.claim_count,
        j.attempt_count, c.method, c.url, c.header_fields, \(withBody ? body : "NULL::bytea"), c.body_file,
        c.destination, c.not_before, c.policy, c.tags, c.idempotency_key,
        (SELECT array_agg(n.needed ORDER BY n.number) FROM convoy_needs AS n WHERE n.position = j.position),
        r.position IS NOT NULL, r.status_code, r.header_fields, \(withBody ? "r.body" : "''::bytea"), r.is_body_cut,
        r.failure, c.follows_as_get, j.lapses
        """
    }

    private static let body =
        "CASE WHEN j.has_body THEN (SELECT b.body FROM convoy_bodies AS b WHERE b.position = j.position) END"

    static let joins = """
        JOIN convoy_contents AS c ON c.position = j.position
        LEFT JOIN convoy_results AS r ON r.position = j.position
        """

    let rows: PostgresRows
    let row: Int

    var claimCount: Int64 { get throws { try rows.bounded(row, 8) ?? 0 } }
    var lapseCount: Int { get throws { Int(try rows.bounded(row, 28) ?? 0) } }
    var attemptCount: Int { get throws { Int(try rows.bounded(row, 9) ?? 0) } }

    var state: JobState {
        get throws {
            if let state = try rows.state(row, 3) { return state }
            throw QueueError(.damaged, "a job in the database has the unknown state \(try rows.int(row, 3) ?? -1)")
        }
    }

    var result: JobResult? {
        get throws {
            guard try rows.bool(row, 21) ?? false else { return nil }
            return JobResult(
                statusCode: try rows.int(row, 22).map { Int($0) },
                headerFields: (try? PostgresJobs.headerFields(rows.text(row, 23))) ?? [:],
                body: Data(try rows.bytes(row, 24) ?? []), isBodyCut: try rows.bool(row, 25) ?? false,
                failure: try rows.text(row, 26))
        }
    }

    /// The defect says why the job cannot be sent; nil when the job was read completely.
    func read() throws -> (job: Job, defect: String?) {
        let (id, url, stored) = (try text(1), URL(string: try text(11)), try text(12))
        let fields = try? PostgresJobs.headerFields(stored)
        let unreadable = url == nil ? "URL" : fields == nil ? "header fields" : nil
        var request = JobRequest(
            method: HTTPMethod(rawValue: try text(10)), url: url ?? URL(filePath: "/"), headerFields: fields ?? [:])
        if let bytes = try rows.bytes(row, 13) { request.body = .data(Data(bytes)) }
        if let file = try rows.text(row, 14) { request.body = .file(URL(filePath: file)) }
        request.destination = try rows.text(row, 15).map { URL(filePath: $0) }
        request.followsRedirectsAsGet = try rows.bool(row, 27) ?? false
        var job = Job(try text(2), request, id: id, idempotencyKey: try text(19))
        job.priority = Operation.QueuePriority(rawValue: Int(try rows.int(row, 4) ?? 0)) ?? .normal
        job.notBefore = try rows.double(row, 16).map { Date(timeIntervalSinceReferenceDate: $0) }
        job.expires = try rows.double(row, 5).map { Date(timeIntervalSinceReferenceDate: $0) }
        job.group = try rows.text(row, 6)
        if let key = try rows.text(row, 7), let policy = try Job.Uniqueness.Policy(rawValue: text(17)) {
            job.uniqueness = Job.Uniqueness(key: key, policy: policy)
        }
        job.tags = Set(try rows.texts(row, 18) ?? [])
        job.dependencies = try rows.texts(row, 20) ?? []
        return (job, unreadable.map { "its \($0) in the database cannot be read" })
    }

    private func text(_ column: Int) throws -> String { try rows.text(row, column) ?? "" }

    static let recordColumns = """
        j.due, j.not_before, j.needs, j.is_behind_group, j.is_behind_key, j.owner, j.attempts, j.failure, j.added
        """
    private static let first = PostgresJobRow.columnCount

    func record(_ time: PostgresTime) throws -> JobRecord {
        let (state, result) = (try state, try result)
        let holds = JobHolds(
            dependencies: Int(try rows.int(row, Self.first + 2) ?? 0),
            isBehindGroup: try rows.bool(row, Self.first + 3) ?? false,
            isBehindKey: try rows.bool(row, Self.first + 4) ?? false)
        let lease = try rows.text(row, Self.first + 5).map { JobLease(owner: $0, token: try claimCount) }
        var record = JobRecord(
            job: try read().job, position: try rows.int(row, 0) ?? 0,
            life: JobLife(
                state: state, holds: state == .blocked ? holds : JobHolds(), lease: lease, claimCount: try claimCount,
                hasResult: result != nil, lapseCount: try lapseCount),
            added: Date(timeIntervalSinceReferenceDate: try rows.double(row, Self.first + 8) ?? 0))
        record.attempts = try (rows.texts(row, Self.first + 6) ?? []).compactMap {
            try? JSONDecoder().decode(JobAttempt.self, from: Data($0.utf8))
        }
        record.attemptCount = try attemptCount
        record.failure = try rows.text(row, Self.first + 7)
        record.result = result
        guard state == .waiting else { return record }
        if let due = try rows.bounded(row, Self.first), due > time.now {
            record.delay = .microseconds(due - time.now)
        } else if let date = try rows.double(row, Self.first + 1), date > time.date {
            record.delay = .seconds(min(1e12, date - time.date))
        }
        return record
    }
}

enum PostgresLimits {
    /// The server's own limit for a message is 1 GiB.
    static let maxBodyBytes = 256 << 20

    // A single body may be larger. A claim ends with the job whose body makes the total reach this size.
    static let maxStatementBytes = 32 << 20

    static func defect(of job: Job) -> String? {
        if let data = job.request.body?.data, data.count > maxBodyBytes {
            return
                "its body has \(data.count) bytes, but a database stores at most \(maxBodyBytes): write it to a file "
                + "that every worker can read, and use body(fromFile:)"
        }
        let texts: [(String, String?)] = [
            ("id", job.id), ("kind", job.kind), ("group", job.group), ("key", job.uniqueness?.key),
            ("Idempotency-Key", job.idempotencyKey), ("method", job.request.method.rawValue),
            ("URL", job.request.url.absoluteString), ("destination", job.request.destination?.path),
            ("body's file", job.request.body?.file?.path),
        ]
        let lists: [(String, String?)] = job.tags.map { ("tag", $0) } + job.dependencies.map { ("dependency", $0) }
        let fields: [(String, String?)] = job.request.headerFields.flatMap {
            [("header field", $0.name), ($0.name, $0.value)]
        }
        let name = (texts + lists + fields).first { $0.1?.utf8.contains(0) ?? false }?.0
        return name.map { "its \($0) contains NUL, which a PostgreSQL text cannot have: remove it" }
    }

    /// PostgreSQL stores no NUL.
    static func visible(_ text: String?) -> String? {
        guard let text, text.utf8.contains(0) else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value == 0 ? "\u{2400}" : $0 }))
    }
}
