// How the end of a job changes other jobs, as SQL statements.
import Convoy

/// Applies changes of a transaction, and their effects on other jobs: a job that ends may unblock or cancel others.
///
/// Each statement sees what was committed before it started. Two transactions must not miss each other's changes. So
/// jobs of a group or key are changed under an advisory lock for the name of that group or key. A dependency is locked
/// while a dependent job is added.
///
/// Against deadlocks, rows and names are each locked in a fixed order, and in most transactions rows before names. If a
/// deadlock occurs anyway, the server detects it, and the transaction is repeated.
struct PostgresRules {
    /// A job that has ended, and may have blocked other jobs.
    struct Ended {
        let id: String
        let position: Int64
        let isDone: Bool
        let isNeeded: Bool
        let group: String?
        let key: String?
        /// Whether the job's body is no longer needed.
        let leavesBody: Bool
    }

    /// The columns that `UPDATE convoy_jobs AS j` returns for ``ended(_:)``.
    static let endedColumns = "j.id, j.state, j.is_needed, j.group_name, j.unique_key, j.has_body, j.position"

    let transaction: PostgresTransaction
    /// Whether `notify` sends a notification: a job may have become claimable, or a caller has cancelled a job.
    private(set) var bringsWork = false
    /// Whether there may be a suspect: a job of which at least two claims in a row have lapsed.
    var hasSuspects = false

    init(_ transaction: PostgresTransaction) { self.transaction = transaction }

    mutating func noteWork() { bringsWork = true }

    /// Notifies all listeners when this transaction is committed, if `bringsWork` is true.
    func notify() {
        if bringsWork { transaction.later(Self.notification) }
    }

    /// Notifies all listeners.
    ///
    /// The server sends one notification for each transaction, however often the statement runs.
    static let notification = PostgresStatement("SELECT 1 FROM (SELECT pg_notify('convoy_jobs', '')) AS a")

    /// Locks groups and keys until the transaction ends.
    ///
    /// The statement that locks them is sent with the next one.
    ///
    /// All names share 256 locks, because the server's lock table is small.
    func lock(groups: [String?], keys: [String?]) {
        if let lock = Self.lock(groups: groups, keys: keys) { transaction.later(lock) }
    }

    static func lock(groups: [String?], keys: [String?]) -> PostgresStatement? {
        let names = groups.compactMap { $0.map { "g" + $0 } } + keys.compactMap { $0.map { "k" + $0 } }
        guard !names.isEmpty else { return nil }
        return PostgresStatement(
            """
            SELECT count(pg_advisory_xact_lock(1668181615, number)) FROM (
                SELECT DISTINCT (hashtextextended(name, 0) & 255)::int4 AS number FROM unnest($1) AS a(name)
                ORDER BY number) AS numbers
            """, [.texts(names)])
    }

    /// Reads which jobs an update has ended.
    static func ended(_ rows: PostgresRows) throws -> [Ended] {
        try (0..<rows.count).compactMap { row in
            let state = try rows.int(row, 1) ?? 0
            guard state >= 4 else { return nil }
            return Ended(
                id: try rows.text(row, 0) ?? "", position: try rows.int(row, 6) ?? 0, isDone: state == 4,
                isNeeded: try rows.bool(row, 2) ?? false, group: try rows.text(row, 3), key: try rows.text(row, 4),
                leavesBody: try state != 5 && rows.bool(row, 5) ?? false)
        }
    }

    /// Deletes unneeded bodies of ended jobs, and unblocks jobs that waited for ended jobs.
    mutating func follow(_ ended: [Ended]) throws {
        try drop(ended.filter(\.leavesBody).map(\.position), from: "convoy_bodies")
        let done = ended.filter { $0.isDone && $0.isNeeded }.map(\.id)
        if !done.isEmpty {
            try free(
                """
                UPDATE convoy_jobs AS j SET needs = j.needs - d.count, state = CASE WHEN j.state > 1 THEN j.state
                    WHEN j.needs = d.count AND NOT j.is_behind_group AND NOT j.is_behind_key THEN 0 ELSE 1 END
                FROM (SELECT position, count(DISTINCT needed)::int4 AS count FROM convoy_needs
                    WHERE needed = ANY($1) GROUP BY position ORDER BY position) AS d
                WHERE j.position = d.position AND j.state < 4 AND j.needs >= d.count
                RETURNING j.state
                """, [.texts(done)])
        }
        let (groups, keys) = (Set(ended.compactMap(\.group)), Set(ended.compactMap(\.key)))
        lock(groups: Array(groups), keys: Array(keys))
        if !groups.isEmpty { try free(Self.freeingFirst("group_name", "is_behind_group"), [.texts(Array(groups))]) }
        if !keys.isEmpty { try free(Self.freeingFirst("unique_key", "is_behind_key"), [.texts(Array(keys))]) }
    }

    func drop(_ positions: [Int64], from table: String) throws {
        guard !positions.isEmpty else { return }
        try transaction.run("DELETE FROM \(table) WHERE position = ANY($1)", [.ints(positions)])
    }

    private mutating func free(_ statement: String, _ parameters: [PostgresValue]) throws {
        let rows = try transaction.run(statement, parameters)
        for row in 0..<rows.count where try rows.int(row, 0) == 0 { bringsWork = true }
    }

    /// The statement after which each group or key no longer blocks its first unfinished job.
    private static func freeingFirst(_ name: String, _ flag: String) -> String {
        """
        UPDATE convoy_jobs AS j SET \(flag) = false, state = CASE WHEN j.state > 1 THEN j.state
            WHEN needs = 0 AND NOT (is_behind_group AND '\(flag)' <> 'is_behind_group')
                AND NOT (is_behind_key AND '\(flag)' <> 'is_behind_key') THEN 0 ELSE 1 END
        FROM unnest($1) AS names(name), LATERAL (
            SELECT position FROM convoy_jobs WHERE \(name) = names.name AND state < 4 ORDER BY position LIMIT 1) AS f
        WHERE j.position = f.position AND j.\(flag)
        RETURNING j.state
        """
    }

    /// Computes what blocks added or moved jobs.
    ///
    /// For other jobs of the given groups and keys, the method computes only whether the group or the key blocks them.
    ///
    /// - Parameters:
    ///   - positions: the positions of the added or moved jobs. The caller has locked their groups and keys.
    ///   - groups: groups whose order has changed. The caller has locked them.
    ///   - keys: keys whose order has changed. The caller has locked them.
    mutating func hold(_ positions: [Int64], groups: [String], keys: [String]) throws {
        try transaction.run(
            """
            SELECT count(*) FROM (SELECT 1 FROM convoy_jobs WHERE id IN (
                SELECT needed FROM convoy_needs WHERE position = ANY($1)) ORDER BY position FOR SHARE) AS a
            """, [.ints(positions)])
        try free(Self.holding("SELECT unnest($1)"), [.ints(positions), .texts(groups), .texts(keys)])
    }

    /// Computes what blocks the jobs that a transaction has added.
    static func holding(_ number: String) -> PostgresStatement {
        PostgresStatement(
            holding("SELECT unnest(positions) FROM convoy_commits WHERE number = $1"),
            [.text(number), .texts([]), .texts([])])
    }

    /// The statement that computes what blocks jobs.
    ///
    /// For added or moved jobs, the statement computes everything that blocks them. For a job found by its group or
    /// key, it computes only whether that group or key blocks the job.
    ///
    /// Another transaction may change the other values of such a job before the update, because they are not locked. So
    /// the update takes them from the newest version of the row. The update skips a job found by its group or key if
    /// nothing changes. Otherwise a deadlock is possible: another transaction may have locked the row of that job, and
    /// wait for the group.
    private static func holding(_ positions: String) -> String {
        let needs = "coalesce(h.needs, j.needs)"
        let (group, key) = ("coalesce(h.by_group, j.is_behind_group)", "coalesce(h.by_key, j.is_behind_key)")
        return """
            UPDATE convoy_jobs AS j SET needs = \(needs), is_behind_group = \(group), is_behind_key = \(key),
                state = CASE WHEN j.state > 1 THEN j.state WHEN \(needs) > 0 OR \(group) OR \(key) THEN 1 ELSE 0 END
            FROM (
                SELECT k.position, CASE WHEN m.is_new THEN (SELECT count(DISTINCT n.needed) FROM convoy_needs AS n
                        JOIN convoy_jobs AS o ON o.id = n.needed WHERE n.position = k.position AND o.state <> 4)
                    END AS needs,
                    CASE WHEN m.has_group THEN EXISTS (SELECT 1 FROM convoy_jobs AS o
                        WHERE o.group_name = k.group_name AND o.state < 4 AND o.position < k.position) END AS by_group,
                    CASE WHEN m.has_key THEN EXISTS (SELECT 1 FROM convoy_jobs AS o
                        WHERE o.unique_key = k.unique_key AND o.state < 4 AND o.position < k.position) END AS by_key
                FROM (
                    SELECT position, bool_or(is_new) AS is_new, bool_or(has_group) AS has_group,
                        bool_or(has_key) AS has_key
                    FROM (
                        SELECT position, true, true, true FROM (\(positions)) AS new(position)
                        UNION ALL SELECT position, false, true, false FROM convoy_jobs
                            WHERE group_name = ANY($2) AND state < 4
                        UNION ALL SELECT position, false, false, true FROM convoy_jobs
                            WHERE unique_key = ANY($3) AND state < 4
                    ) AS all_holds(position, is_new, has_group, has_key) GROUP BY position
                ) AS m JOIN convoy_jobs AS k ON k.position = m.position WHERE k.state < 4
            ) AS h
            WHERE j.position = h.position AND j.state < 4 AND (h.needs IS NOT NULL
                OR \(group) <> j.is_behind_group OR \(key) <> j.is_behind_key)
            RETURNING j.state
            """
    }

    /// Cancels jobs and all jobs that depend on them.
    ///
    /// Returns the number of cancelled jobs.
    mutating func cancel(_ ids: [String]) throws -> Int {
        var next = ids
        var ended: [Ended] = []
        while !next.isEmpty {
            let rows = try transaction.run(
                """
                WITH meant AS MATERIALIZED (
                    SELECT position FROM convoy_jobs WHERE id = ANY($1) AND state IN (0, 1, 2, 3, 5)
                    ORDER BY position FOR UPDATE)
                UPDATE convoy_jobs AS j SET state = 6, owner = NULL, lapses = 0, has_result = false, failure = NULL, finished = $2,
                    needs = 0, is_behind_group = false, is_behind_key = false
                FROM meant WHERE j.position = meant.position
                RETURNING \(Self.endedColumns)
                """, [.texts(next), .int(transaction.time.now)])
            let level = try Self.ended(rows)
            // The results are deleted by a separate statement. The update may have waited for a lock, and would not see
            // a result that was written during the wait.
            try drop(level.map(\.position), from: "convoy_results")
            ended += level
            next = try dependents(of: level.filter(\.isNeeded).map(\.id))
        }
        try follow(ended)
        return ended.count
    }

    private func dependents(of ids: [String]) throws -> [String] {
        guard !ids.isEmpty else { return [] }
        let rows = try transaction.run(
            """
            SELECT DISTINCT j.id FROM convoy_needs AS n JOIN convoy_jobs AS j USING (position)
            WHERE n.needed = ANY($1) AND j.state IN (0, 1, 2, 3, 5)
            """, [.texts(ids)])
        return try (0..<rows.count).compactMap { try rows.text($0, 0) }
    }
}
