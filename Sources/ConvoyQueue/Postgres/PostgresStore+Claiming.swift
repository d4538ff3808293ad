// Which jobs are claimed, and when more may be ready.
import Convoy

extension PostgresRules {
    /// Claims a suspect, then ready jobs, then jobs whose result waits for a handler.
    ///
    /// A claim ends with the job whose body makes the total size reach `PostgresLimits.maxStatementBytes`, because the
    /// bodies are in memory.
    ///
    /// - Returns: the jobs, and whether others remain because of large bodies or unreadable jobs.
    mutating func claim(_ request: ClaimRequest, by owner: String) throws -> (jobs: [ClaimedJob], hasMore: Bool) {
        guard request.limit > 0 else { return ([], false) }
        let suspect =
            """
            lapses >= 2 AND NOT EXISTS (
                SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state = 2 AND owner = $2)
            """
        var (jobs, hasMore): ([ClaimedJob], Bool) = ([], false)
        for lapses in (hasSuspects ? [suspect] : []) + ["lapses < 2"] {
            let most = lapses == suspect ? 1 : request.limit
            if jobs.count < most, !hasMore, let (condition, kinds) = Self.condition(request.kinds) {
                let ready = try claim(
                    Self.ready + " AND \(lapses) \(condition)", Self.order, kinds, limit: most - jobs.count, owner,
                    lapses == suspect ? nil : request)
                (jobs, hasMore) = (jobs + ready.jobs, ready.hasMore)
            }
            if jobs.count < most, !hasMore, let (condition, kinds) = Self.condition(request.answeredKinds) {
                let answered = try claim(
                    "state = 3 AND \(lapses) \(condition)", "position", kinds, limit: most - jobs.count, owner)
                (jobs, hasMore) = (jobs + answered.jobs, answered.hasMore)
            }
        }
        return (jobs, hasMore)
    }

    /// The SQL condition for some kinds, which are its parameter `$3`; nil if no kind is allowed.
    static func condition(_ kinds: ClaimRequest.Kinds) -> (condition: String, kinds: [String])? {
        switch kinds {
        case .all: ("", [])
        case .only(let kinds): kinds.isEmpty ? nil : ("AND kind = ANY($3)", kinds.sorted())
        case .except(let kinds): kinds.isEmpty ? ("", []) : ("AND kind <> ALL($3)", kinds.sorted())
        }
    }

    private static let ready = "state = 0 AND due IS NULL AND not_before IS NULL"
    /// The order in which jobs are sent.
    private static let order = "priority DESC, attempt_count > 0, position"

    /// The table expression `hosts`: the hosts with ready jobs, found by one index lookup for each host.
    private static let hosts = """
        hosts(host) AS (
            (SELECT host FROM convoy_jobs WHERE \(ready) ORDER BY host LIMIT 1)
            UNION ALL SELECT (SELECT j.host FROM convoy_jobs AS j WHERE \(ready) AND j.host > hosts.host
                ORDER BY j.host LIMIT 1)
            FROM hosts WHERE hosts.host IS NOT NULL)
        """

    /// The table expression `candidates`: the first jobs of each host that has room.
    ///
    /// It has up to four times as many jobs as the limit, because other transactions may have locked or claimed some.
    private static func candidates(_ condition: String) -> String {
        """
        \(hosts), rooms AS MATERIALIZED (
            SELECT h.host, CASE WHEN h.host = '' THEN $1 ELSE coalesce(r.room, $4) END AS room
            FROM hosts AS h LEFT JOIN unnest($5, $6) AS r(host, room) ON r.host = h.host WHERE h.host IS NOT NULL),
        candidates AS MATERIALIZED (
            SELECT c.position FROM rooms, LATERAL (
                SELECT position, priority, attempt_count FROM convoy_jobs
                WHERE \(condition) AND host = rooms.host ORDER BY \(order) LIMIT rooms.room) AS c
            ORDER BY c.priority DESC, c.attempt_count > 0, c.position LIMIT 4 * least($1, 100000)),
        """
    }

    private mutating func claim(
        _ condition: String, _ order: String, _ kinds: [String], limit: Int, _ owner: String,
        _ request: ClaimRequest? = nil
    ) throws -> (jobs: [ClaimedJob], hasMore: Bool) {
        let statement = Self.claim(
            condition, order, kinds, limit: limit, owner, request, noting: transaction.number)
        let claimed = try Self.claimed(transaction.run(statement.text, statement.parameters))
        for job in claimed.broken { try bury(job.position, job.defect) }
        return (claimed.jobs, claimed.hasMore)
    }

    /// The statement that claims ready jobs that are not suspects; nil for no kinds, and for a limit of zero.
    ///
    /// - Parameter number: the transaction's number, under which the positions of the jobs are recorded.
    static func claimReady(_ request: ClaimRequest, by owner: String, noting number: String) -> PostgresStatement? {
        guard request.limit > 0, let (condition, kinds) = condition(request.kinds) else { return nil }
        return claim(
            ready + " AND lapses < 2 \(condition)", order, kinds, limit: request.limit, owner, request, noting: number)
    }

    private static func claim(
        _ condition: String, _ order: String, _ kinds: [String], limit: Int, _ owner: String, _ request: ClaimRequest?,
        noting number: String
    ) -> PostgresStatement {
        var (before, values) = ("", [PostgresValue.texts(kinds)])
        var meant = """
            SELECT position, priority, attempt_count, has_body FROM convoy_jobs
            WHERE \(condition) ORDER BY \(order) LIMIT $1 FOR UPDATE SKIP LOCKED
            """
        if let request, let most = request.maxPerHost {
            before = candidates(condition)
            // LATERAL reads the candidates one by one in order, where a join may read all ready jobs for each of them.
            // IS TRUE hides the condition from the planner. Otherwise the planner, if it has no statistics, would use
            // the index of ready jobs instead of that of positions.
            meant = """
                SELECT j.* FROM candidates AS c, LATERAL (
                    SELECT position, priority, attempt_count, has_body FROM convoy_jobs
                    WHERE position = c.position AND (\(condition)) IS TRUE
                    FOR UPDATE SKIP LOCKED) AS j LIMIT $1
                """
            let rooms = request.rooms.keys.sorted()
            values += [.int(max(0, most)), .texts(rooms), .ints(rooms.map { Int64(request.room(of: $0)) })]
        }
        values.append(.text(number))
        return PostgresStatement(
            """
            WITH RECURSIVE \(before) meant AS MATERIALIZED (\(meant)),
            fitting AS MATERIALIZED (
                SELECT position FROM (
                    SELECT position, sum(CASE WHEN has_body THEN (
                        SELECT octet_length(body) FROM convoy_bodies AS b WHERE b.position = meant.position) END
                    ) OVER (
                        ORDER BY priority DESC, attempt_count > 0, position
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                    FROM meant) AS sums
                WHERE coalesce(before, 0) < \(PostgresLimits.maxStatementBytes)),
            noted AS (
                UPDATE convoy_commits SET positions = coalesce(positions, '{}') || ARRAY(SELECT position FROM j)
                WHERE number = $\(values.count + 2)),
            j AS (
                UPDATE convoy_jobs AS j SET state = 2, owner = $2, claim_count = j.claim_count + 1
                FROM fitting WHERE j.position = fitting.position RETURNING j.*)
            SELECT \(PostgresJobRow.columns(withBody: true)),
                (SELECT count(*) FROM meant) > (SELECT count(*) FROM fitting)
            FROM j \(PostgresJobRow.joins) ORDER BY j.priority DESC, j.attempt_count > 0, j.position
            """, [.int(limit), .text(owner)] + values)
    }

    /// Reads the jobs of a claim, and separately the claimed jobs that cannot be read (`broken`).
    static func claimed(
        _ rows: PostgresRows
    ) throws -> (jobs: [ClaimedJob], hasMore: Bool, broken: [(position: Int64, defect: String)]) {
        let hasMore = rows.count > 0 ? try rows.bool(0, PostgresJobRow.columnCount) ?? false : false
        var (jobs, broken): ([ClaimedJob], [(position: Int64, defect: String)]) = ([], [])
        for index in 0..<rows.count {
            let row = PostgresJobRow(rows: rows, row: index)
            let (job, defect) = try row.read()
            if let defect {
                broken.append((try row.position, defect))
                continue
            }
            jobs.append(
                ClaimedJob(
                    claim: Claim(id: job.id, token: try row.claimCount), job: job, attemptCount: try row.attemptCount,
                    lapseCount: try row.lapseCount, result: try row.result))
        }
        return (jobs, hasMore || !broken.isEmpty, broken)
    }

    /// The query for the jobs that a transaction has claimed and that the owner has not lost since.
    static func claimed(under number: String, by owner: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT \(PostgresJobRow.columns(withBody: true)), false FROM convoy_jobs AS j \(PostgresJobRow.joins)
            WHERE j.position = ANY((SELECT positions FROM convoy_commits WHERE number = $1)::int8[])
                AND j.state = 2 AND j.owner = $2 ORDER BY j.priority DESC, j.attempt_count > 0, j.position
            """, [.text(number), .text(owner)])
    }

    /// Makes an unreadable claimed job a dead letter.
    mutating func bury(_ position: Int64, _ defect: String) throws {
        let rows = try transaction.run(
            """
            UPDATE convoy_jobs AS j SET state = 5, owner = NULL, failure = $2, has_result = false, finished = $3
            WHERE position = $1 RETURNING \(Self.endedColumns)
            """, [.int(position), .text(defect), .int(transaction.time.now)])
        try drop([position], from: "convoy_results")
        try follow(Self.ended(rows))
    }

    /// How long a queue waits before it tries again to claim jobs whose rows are locked.
    ///
    /// The database does not notify of the unlocking of a row.
    private static let lockedRowPause = Duration.seconds(1)

    /// The time until a job becomes ready or expires, or the lease of another owner ends; nil if none will.
    ///
    /// PostgreSQL sends no notification at that time. If one of these moments has passed or a job is ready, the result
    /// is at most ``lockedRowPause``.
    func next(_ request: ClaimRequest, _ owner: String) throws -> Duration? {
        let looks = Self.looks(request, owner)
        return try Self.next(try transaction.connection.run(looks), transaction.time)
    }

    /// The queries for the time of the next possible claim; ``next(_:_:)`` reads the rows.
    static func looks(_ request: ClaimRequest, _ owner: String) -> [PostgresStatement] {
        [nextMoments(owner)] + (hasReady(request, owner).map { [$0] } ?? [])
    }

    static func next(_ looks: [PostgresRows], _ time: PostgresTime) throws -> Duration? {
        guard let rows = looks.first else { return nil }
        var moments = try (0...1).compactMap { try rows.bounded(0, $0).map { Duration.microseconds($0 - time.now) } }
        let waits = try (2...3).compactMap {
            try rows.double(0, $0).map { max(-1e12, min(1e12, $0 - time.date)) }
        }
        moments += waits.map { Duration.seconds($0) }
        // A ready job was not claimed if, for example, another transaction has locked its row.
        let isReady = try looks.dropFirst().first?.bool(0, 0) ?? false
        if isReady || moments.contains(where: { $0 <= .zero }) {
            return min(lockedRowPause, moments.filter { $0 > .zero }.min() ?? lockedRowPause)
        }
        return moments.min()
    }

    /// The query for whether a claimable job of a host with room exists; nil if no kind is allowed.
    private static func hasReady(_ request: ClaimRequest, _ owner: String) -> PostgresStatement? {
        guard let (condition, kinds) = condition(request.kinds) else { return nil }
        guard let most = request.maxPerHost else {
            return PostgresStatement(
                "SELECT EXISTS (SELECT 1 FROM convoy_jobs WHERE \(ready) AND lapses < 2 \(condition))",
                [.int(0), .int(0), .texts(kinds)])
        }
        // The query counts all current claims of this owner. `request.rooms` includes only the claims before this
        // transaction.
        return PostgresStatement(
            """
            WITH RECURSIVE \(hosts),
            full_hosts AS MATERIALIZED (
                SELECT host FROM convoy_jobs WHERE owner = $1 AND state = 2 GROUP BY host HAVING count(*) >= $2
                UNION SELECT unnest($4))
            SELECT EXISTS (SELECT 1 FROM hosts WHERE host IS NOT NULL AND host NOT IN (SELECT host FROM full_hosts)
                AND (SELECT true FROM convoy_jobs
                    WHERE \(ready) AND lapses < 2 \(condition) AND convoy_jobs.host = hosts.host LIMIT 1))
            """,
            [.text(owner), .int(most), .texts(kinds), .texts(request.rooms.filter { $0.value <= 0 }.map(\.key))])
    }

    private static func nextMoments(_ owner: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT (SELECT min(due) FROM convoy_jobs WHERE state = 0 AND due IS NOT NULL),
                (SELECT min(ends) FROM convoy_owners AS o WHERE owner <> $1
                    AND EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 2 AND owner = o.owner)),
                (SELECT min(not_before) FROM convoy_jobs WHERE state = 0 AND not_before IS NOT NULL),
                (SELECT min(expires) FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL)
            """, [.text(owner)])
    }
}
