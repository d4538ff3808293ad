// Changes over time: leases, dates, expiries.
import Convoy

extension PostgresRules {
    /// Deletes up to 5,000 transaction numbers that are older than ten minutes.
    ///
    /// A call of the store reads its number to learn whether an earlier attempt was committed. By default, it repeats
    /// its transaction for 15 seconds. If `exchange` ends without knowing this, the next call of `exchange` reads the
    /// number.
    func forgetCommits() throws {
        try transaction.run(
            """
            DELETE FROM convoy_commits WHERE number IN (SELECT number FROM convoy_commits
                WHERE made < (extract(epoch FROM clock_timestamp()) * 1000000)::int8 - 600000000
                ORDER BY made LIMIT 5000 FOR UPDATE SKIP LOCKED)
            """)
    }

    func renew(_ owner: String, for lease: Duration) throws {
        try transaction.run(
            "INSERT INTO convoy_owners VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET ends = excluded.ends",
            [.text(owner), .int(transaction.time.now + Self.microseconds(lease))])
    }

    /// Makes jobs ready whose time has come, ends expired jobs, and releases the jobs of other owners whose lease has
    /// ended.
    ///
    /// - Parameter kinds: the kinds whose handlers receive expired jobs; with nil, the call expires no jobs.
    mutating func passTime(for owner: String, telling kinds: ClaimRequest.Kinds?) throws {
        let (now, date) = (PostgresValue.int(transaction.time.now), PostgresValue.double(transaction.time.date))
        let due = try transaction.run(
            """
            SELECT EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 0 AND due IS NOT NULL AND due <= $1),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 0 AND not_before IS NOT NULL AND not_before <= $2),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL AND expires <= $2),
                EXISTS (SELECT 1 FROM convoy_owners WHERE ends <= $1 AND owner <> $3),
                EXISTS (SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state < 4)
            """, [now, date, .text(owner)])
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
                """
                SELECT owner FROM convoy_owners WHERE ends <= $1 AND owner <> $2
                ORDER BY owner FOR UPDATE SKIP LOCKED
                """, [now, .text(owner)])
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
                failure = CASE WHEN \(isTold) THEN NULL ELSE $2 END, finished = CASE WHEN \(isTold) THEN NULL ELSE $3 END
                """, where: "state < 2 AND expires <= $1")
                + " RETURNING \(Self.endedColumns)",
            [date, .text(JobRecord.expired), now, .texts(names)])
        for row in 0..<rows.count where try rows.int(row, 1) == 3 {
            try keep(JobResult(failure: JobRecord.expired), at: rows.int(row, 6) ?? 0)
        }
        try follow(Self.ended(rows))
    }

    /// The statement that updates up to 5,000 jobs that no other transaction is changing.
    static func changing(_ changes: String, where condition: String) -> String {
        """
        WITH meant AS MATERIALIZED (
            SELECT position FROM convoy_jobs WHERE \(condition) LIMIT 5000 FOR UPDATE SKIP LOCKED)
        UPDATE convoy_jobs AS j SET \(changes) FROM meant WHERE j.position = meant.position
        """
    }

    /// Ends the leases of some owners, and releases the jobs that they have claimed.
    ///
    /// Claims of other owners count as lapsed. The claims of `owner` are released without a lapse.
    mutating func endLeases(of owners: [String], for owner: String) throws {
        guard !owners.isEmpty else { return }
        // The rule of ``JobLife/lapseDelay``: from the second lapse on, a job without a result waits 1, 2, 4 and so on
        // up to 64 seconds.
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
