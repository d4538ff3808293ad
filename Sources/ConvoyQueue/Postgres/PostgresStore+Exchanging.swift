// Claims: taken, settled, renewed, given back.
import Convoy

extension PostgresStore {
    /// Settles claimed jobs, then claims others.
    public func exchange(
        _ settlements: [Settlement], claiming request: ClaimRequest?
    ) async throws(QueueError) -> Exchange {
        try await workers.transaction { [owner] transaction in
            var rules = PostgresRules(transaction)
            let isSettled = try rules.settle(settlements)
            guard let request else {
                try rules.notify()
                return Exchange(isSettled: isSettled, jobs: [], next: nil)
            }
            try rules.passTime(for: owner, telling: request.answeredKinds)
            try rules.renew(owner, for: request.lease)
            let (jobs, hasMore) = try rules.claim(request, by: owner)
            let next = jobs.count >= request.limit ? nil : hasMore ? .zero : try rules.next(request, owner)
            try rules.notify()
            return Exchange(isSettled: isSettled, jobs: jobs, next: next)
        }
    }

    /// Renews the leases of this instance: the heartbeat.
    public func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try await workers.transaction { [owner] transaction in
            var rules = PostgresRules(transaction)
            // First those that have ended, its own among them: what is lost stays lost.
            try rules.passTime(for: owner, telling: nil)
            try rules.renew(owner, for: lease)
            try rules.notify()
            try rules.forgetCommits()
            let rows = try transaction.run(
                "SELECT id, claim_count FROM convoy_jobs WHERE owner = $1 AND state = 2", [.text(owner)])
            let held = Set(
                try (0..<rows.count).map { row in
                    Claim(id: try rows.text(row, 0) ?? "", token: try rows.int(row, 1) ?? 0)
                })
            return claims.filter { !held.contains($0) }
        }
    }

    /// Gives back every job that this instance has claimed.
    public func release() async throws(QueueError) {
        try await workers.transaction { [owner] transaction in
            var rules = PostgresRules(transaction)
            try rules.endLeases(of: [owner], for: owner)
            try rules.notify()
        }
    }
}

extension PostgresRules {
    fileprivate mutating func settle(_ settlements: [Settlement]) throws -> [Bool] {
        guard !settlements.isEmpty else { return [] }
        var isSettled = settlements.map { _ in false }
        let rows = try transaction.run(
            """
            WITH given AS MATERIALIZED (
                SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
                WITH ORDINALITY AS g(id, token, verdict, due, reason, attempt, number)),
            meant AS MATERIALIZED (
                SELECT j.position, g.* FROM given AS g JOIN convoy_jobs AS j USING (id)
                WHERE j.state = 2 AND j.claim_count = g.token ORDER BY j.position FOR UPDATE OF j)
            UPDATE convoy_jobs AS j SET owner = NULL, due = m.due, failure = m.reason,
                lapses = CASE WHEN m.verdict < 0 THEN j.lapses ELSE 0 END,
                state = CASE WHEN m.verdict >= 0 THEN m.verdict WHEN j.has_result THEN 3 ELSE 0 END,
                has_result = CASE WHEN m.verdict < 0 THEN j.has_result ELSE m.verdict = 3 END,
                finished = CASE WHEN m.verdict >= 4 THEN $7 END,
                attempt_count = j.attempt_count + CASE WHEN m.attempt IS NULL THEN 0 ELSE 1 END,
                attempts = CASE WHEN m.attempt IS NULL THEN j.attempts
                    ELSE (j.attempts || m.attempt)[greatest(1, cardinality(j.attempts) + 2 - $8)::int4:] END
            FROM meant AS m WHERE j.position = m.position
            RETURNING \(Self.endedColumns), m.number
            """,
            [
                .texts(settlements.map(\.claim.id)), .ints(settlements.map(\.claim.token)),
                .ints(settlements.map { Self.number(of: $0.verdict) }),
                .ints(settlements.map { Self.delay(of: $0.verdict).map { transaction.time.now + $0 } }),
                .texts(settlements.map { Self.reason(of: $0.verdict) }),
                .texts(try settlements.map { try $0.attempt.map { try PostgresJobs.text(of: $0) } }),
                .int(transaction.time.now), .int(JobRecord.maxAttempts),
            ])
        var without: [Int64] = []
        for row in 0..<rows.count {
            let index = Int(try rows.int(row, 7) ?? 0) - 1
            guard isSettled.indices.contains(index) else { continue }
            isSettled[index] = true
            let position = try rows.int(row, 6) ?? 0
            switch settlements[index].verdict {
            case .answered(let result): try keep(result, at: position)
            case .release: noteWork()
            case .retry:
                noteWork()
                without.append(position)
            case .done, .dead: without.append(position)
            }
        }
        try drop(without, from: "convoy_results")
        try follow(Self.ended(rows))
        return isSettled
    }

    /// The state that a verdict leads to; -1 for the one before the claim.
    private static func number(of verdict: JobVerdict) -> Int64 {
        switch verdict {
        case .retry: 0
        case .answered: 3
        case .done: 4
        case .dead: 5
        case .release: -1
        }
    }

    private static func reason(of verdict: JobVerdict) -> String? {
        if case .dead(let reason) = verdict { PostgresLimits.visible(reason) } else { nil }
    }

    private static func delay(of verdict: JobVerdict) -> Int64? {
        if case .retry(let delay) = verdict { microseconds(delay) } else { nil }
    }

    static func microseconds(_ duration: Duration) -> Int64 {
        // A thousand years are as good as more.
        let (seconds, rest) = min(max(duration, .zero), .seconds(31_556_952_000)).components
        return seconds * 1_000_000 + rest / 1_000_000_000_000
    }

    private mutating func keep(_ result: JobResult, at position: Int64) throws {
        noteWork()
        try transaction.run(
            """
            INSERT INTO convoy_results (position, status_code, header_fields, body, is_body_cut, failure)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (position) DO UPDATE SET status_code = excluded.status_code,
                header_fields = excluded.header_fields, body = excluded.body, is_body_cut = excluded.is_body_cut,
                failure = excluded.failure
            """,
            [
                .int(position), .int(result.statusCode.map { Int64($0) }),
                .text(try PostgresJobs.text(of: result.headerFields)), .bytes(Array(result.body)),
                .bool(result.isBodyCut), .text(PostgresLimits.visible(result.failure)),
            ])
    }

    /// Deletes numbers of transactions that no call asks for any more; it asks for seconds.
    fileprivate func forgetCommits() throws {
        try transaction.run(
            """
            DELETE FROM convoy_commits WHERE number IN (SELECT number FROM convoy_commits
                WHERE made < (extract(epoch FROM clock_timestamp()) * 1000000)::int8 - 600000000
                ORDER BY made LIMIT 5000 FOR UPDATE SKIP LOCKED)
            """)
    }

    fileprivate func renew(_ owner: String, for lease: Duration) throws {
        try transaction.run(
            "INSERT INTO convoy_owners VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET ends = excluded.ends",
            [.text(owner), .int(transaction.time.now + Self.microseconds(lease))])
    }

    /// Does what is due by now: jobs whose time has come, those that have expired, leases that have ended.
    ///
    /// - Parameter kinds: of which handlers are told of an expiry; nil: jobs do not expire now.
    fileprivate mutating func passTime(for owner: String, telling kinds: ClaimRequest.Kinds?) throws {
        let (now, date) = (PostgresValue.int(transaction.time.now), PostgresValue.double(transaction.time.date))
        let due = try transaction.run(
            """
            SELECT EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 0 AND due IS NOT NULL AND due <= $1),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 0 AND not_before IS NOT NULL AND not_before <= $2),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL AND expires <= $2),
                EXISTS (SELECT 1 FROM convoy_owners WHERE ends <= $1),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state < 4)
            """, [now, date])
        if try due.bool(0, 0) ?? false {
            try transaction.run(Self.changing("due = NULL", where: "state = 0 AND due <= $1"), [now])
        }
        if try due.bool(0, 1) ?? false {
            try transaction.run(Self.changing("not_before = NULL", where: "state = 0 AND not_before <= $1"), [date])
        }
        if let kinds, try due.bool(0, 2) ?? false { try expire(now, date, telling: kinds) }
        hasSuspects = try due.bool(0, 4) ?? false
        if try due.bool(0, 3) ?? false {
            hasSuspects = true
            let rows = try transaction.run(
                "SELECT owner FROM convoy_owners WHERE ends <= $1 ORDER BY owner FOR UPDATE SKIP LOCKED", [now])
            try endLeases(of: (0..<rows.count).compactMap { try rows.text($0, 0) }, for: owner)
        }
    }

    private mutating func expire(
        _ now: PostgresValue, _ date: PostgresValue, telling kinds: ClaimRequest.Kinds
    ) throws {
        let (isTold, names): (String, [String]) =
            switch kinds {
            case .all: ("true", [])
            case .only(let kinds): ("j.kind = ANY($4)", Array(kinds))
            case .except(let kinds): ("j.kind <> ALL($4)", Array(kinds))
            }
        let rows = try transaction.run(
            Self.changing(
                """
                state = CASE WHEN \(isTold) THEN 3 ELSE 5 END, has_result = \(isTold),
                failure = CASE WHEN \(isTold) THEN NULL ELSE $2 END, finished = CASE WHEN \(isTold) THEN NULL ELSE $3 END,
                needs = 0, is_behind_group = false, is_behind_key = false
                """, where: "state < 2 AND expires <= $1")
                + " RETURNING \(Self.endedColumns)",
            [date, .text(JobRecord.expired), now, .texts(names)])
        for row in 0..<rows.count where try rows.int(row, 1) == 3 {
            try keep(JobResult(failure: JobRecord.expired), at: rows.int(row, 6) ?? 0)
        }
        try follow(Self.ended(rows))
    }

    /// An update of some thousand jobs, of which no other transaction changes one now.
    private static func changing(_ changes: String, where condition: String) -> String {
        """
        WITH meant AS MATERIALIZED (
            SELECT position FROM convoy_jobs WHERE \(condition) LIMIT 5000 FOR UPDATE SKIP LOCKED)
        UPDATE convoy_jobs AS j SET \(changes) FROM meant WHERE j.position = meant.position
        """
    }

    /// Takes jobs back; the claims of others have lapsed, its own an owner gives back or finds out of in time.
    fileprivate mutating func endLeases(of owners: [String], for owner: String) throws {
        guard !owners.isEmpty else { return }
        // The rule of ``JobLife/lapseDelay``: from the second lapse on a job waits 1, 2, 4 seconds and so on.
        let rows = try transaction.run(
            """
            WITH meant AS MATERIALIZED (
                SELECT position FROM convoy_jobs WHERE owner = ANY($1) AND state = 2 ORDER BY position FOR UPDATE)
            UPDATE convoy_jobs AS j SET owner = NULL, state = CASE WHEN j.has_result THEN 3 ELSE 0 END,
                lapses = j.lapses + CASE WHEN j.owner <> $2 THEN 1 ELSE 0 END,
                due = CASE WHEN j.owner <> $2 AND NOT j.has_result AND j.lapses > 0
                    THEN $3 + (1000000::int8 << least(6, j.lapses - 1)) END
            FROM meant WHERE j.position = meant.position
            """, [.texts(owners), .text(owner), .int(transaction.time.now)])
        if rows.changedCount > 0 { noteWork() }
        try transaction.run("DELETE FROM convoy_owners WHERE owner = ANY($1)", [.texts(owners)])
    }
}
