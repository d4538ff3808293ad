// Reading: one job, a page of jobs, blockers, counts.
import Convoy
import Foundation

extension PostgresStore {
    /// A job with all stored details.
    public func job(_ id: String) async throws(QueueError) -> JobRecord? {
        try await records("j.id = $1", [.text(id)], limit: 1, withBody: true).first
    }

    /// The jobs of a selection in the order of ``JobRecord/position``, without the bytes of their bodies and results.
    public func jobs(
        _ selection: JobSelection, after position: Int64, limit: Int
    ) async throws(QueueError) -> [JobRecord] {
        let (condition, parameters) = PostgresSelection.condition(selection, parametersBefore: 1)
        return try await records(
            "j.position > $1 AND \(condition)", [.int(position)] + parameters, limit: limit, withBody: false)
    }

    private func records(
        _ condition: String, _ parameters: [PostgresValue], limit: Int, withBody: Bool
    ) async throws(QueueError) -> [JobRecord] {
        let statement = PostgresStatement(
            """
            SELECT \(PostgresJobRow.columns(withBody: withBody)), \(PostgresJobRow.recordColumns)
            FROM convoy_jobs AS j \(PostgresJobRow.joins)
            WHERE \(condition) ORDER BY j.position LIMIT $\(parameters.count + 1)
            """, parameters + [.int(max(0, limit))])
        return try await callers.read(statement) { rows, time in
            try (0..<rows.count).map { try PostgresJobRow(rows: rows, row: $0).record(time) }
        }
    }

    /// The jobs that block a job, at most a hundred.
    public func blockers(of id: String) async throws(QueueError) -> [JobBlocker] {
        let statement = PostgresStatement(
            """
            WITH j AS MATERIALIZED (
                SELECT position, group_name, unique_key FROM convoy_jobs WHERE id = $1 AND state = 1)
            (SELECT DISTINCT o.id, o.state, 'dependency', 0 FROM j JOIN convoy_needs AS n USING (position)
                JOIN convoy_jobs AS o ON o.id = n.needed WHERE o.state <> 4 ORDER BY o.id LIMIT 98)
            UNION ALL (SELECT o.id, o.state, 'group', 1 FROM j, LATERAL (
                SELECT id, state, position FROM convoy_jobs WHERE group_name = j.group_name AND state < 4
                ORDER BY position LIMIT 1) AS o WHERE o.position < j.position)
            UNION ALL (SELECT o.id, o.state, 'key', 2 FROM j, LATERAL (
                SELECT id, state, position FROM convoy_jobs WHERE unique_key = j.unique_key AND state < 4
                ORDER BY position LIMIT 1) AS o WHERE o.position < j.position)
            ORDER BY 4, 1
            """, [.text(id)])
        return try await callers.read(statement) { rows, _ in
            try (0..<rows.count).compactMap { row in
                let state = Int(try rows.int(row, 1) ?? -1)
                guard PostgresSchema.states.indices.contains(state), let id = try rows.text(row, 0),
                    let reason = try rows.text(row, 2).flatMap({ JobBlocker.Reason(rawValue: $0) })
                else { return nil }
                return JobBlocker(id: id, state: PostgresSchema.states[state], reason: reason)
            }
        }
    }

    /// The number of jobs by kind and state.
    public func status() async throws(QueueError) -> QueueStatus {
        let statement = PostgresStatement(
            """
            SELECT kind, state, sum(count)::int8 FROM convoy_counts GROUP BY kind, state HAVING sum(count) <> 0
            """)
        return try await callers.read(statement) { rows, _ in
            var status = QueueStatus()
            for row in 0..<rows.count {
                let state = Int(try rows.int(row, 1) ?? -1)
                guard PostgresSchema.states.indices.contains(state), let kind = try rows.text(row, 0) else { continue }
                status.counts[kind, default: [:]][PostgresSchema.states[state]] = Int(try rows.bounded(row, 2) ?? 0)
            }
            return status
        }
    }
}

extension PostgresJobRow {
    /// The columns of a `JobRecord` that ``columns(withBody:)`` does not contain.
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
            job: try read().job, position: try position,
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
