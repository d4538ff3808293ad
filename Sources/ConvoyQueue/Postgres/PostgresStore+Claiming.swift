// Which jobs are claimed, and when there may be more.
import Convoy

extension PostgresRules {
    /// Claims jobs that are ready, then jobs whose result waits.
    func claim(_ request: ClaimRequest, by owner: String) throws -> [ClaimedJob] {
        var jobs: [ClaimedJob] = []
        if let (condition, kinds) = Self.condition(request.kinds), request.limit > 0 {
            jobs = try claim(
                "state = 0 AND due IS NULL AND not_before IS NULL \(condition)", "priority DESC, position", kinds,
                limit: request.limit, owner)
        }
        if jobs.count < request.limit, let (condition, kinds) = Self.condition(request.answeredKinds) {
            jobs += try claim(
                "state = 3 \(condition)", "position", kinds, limit: request.limit - jobs.count, owner)
        }
        return jobs
    }

    /// The kinds as a condition with a parameter; nil for none.
    private static func condition(_ kinds: ClaimRequest.Kinds) -> (condition: String, kinds: [String])? {
        switch kinds {
        case .all: ("", [])
        case .only(let kinds): kinds.isEmpty ? nil : ("AND kind = ANY($3)", Array(kinds))
        case .except(let kinds): kinds.isEmpty ? ("", []) : ("AND kind <> ALL($3)", Array(kinds))
        }
    }

    private func claim(
        _ condition: String, _ order: String, _ kinds: [String], limit: Int, _ owner: String
    ) throws -> [ClaimedJob] {
        let rows = try transaction.run(
            """
            WITH meant AS MATERIALIZED (
                SELECT position FROM convoy_jobs WHERE \(condition) ORDER BY \(order) LIMIT $1 FOR UPDATE SKIP LOCKED),
            j AS (
                UPDATE convoy_jobs AS j SET state = 2, owner = $2, claim_count = j.claim_count + 1
                FROM meant WHERE j.position = meant.position RETURNING j.*)
            SELECT \(PostgresJobRow.columns(withBody: true))
            FROM j \(PostgresJobRow.joins) ORDER BY j.priority DESC, j.position
            """, [.int(limit), .text(owner)] + (kinds.isEmpty ? [] : [.texts(kinds)]))
        return try (0..<rows.count).map { index in
            let row = PostgresJobRow(rows: rows, row: index)
            let job = try row.job()
            return ClaimedJob(
                claim: Claim(id: job.id, token: try row.claimCount), job: job, attemptCount: try row.attemptCount,
                result: try row.result)
        }
    }

    /// How long until something is due that is not told.
    func next(_ owner: String) throws -> Duration? {
        let rows = try transaction.run(
            """
            SELECT (SELECT min(due) FROM convoy_jobs WHERE state = 0 AND due IS NOT NULL),
                (SELECT min(ends) FROM convoy_owners AS o WHERE owner <> $1
                    AND EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 2 AND owner = o.owner)),
                (SELECT min(not_before) FROM convoy_jobs WHERE state = 0 AND not_before IS NOT NULL),
                (SELECT min(expires) FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL)
            """, [.text(owner)])
        let (now, date) = (transaction.time.now, transaction.time.date)
        var moments = try (0...1).compactMap { try rows.int(0, $0).map { Duration.microseconds($0 - now) } }
        moments += try (2...3).compactMap { try rows.double(0, $0).map { Duration.seconds($0 - date) } }
        return moments.min().map { max(.zero, $0) }
    }
}
