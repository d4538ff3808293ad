import Convoy
import ConvoyQueue
import Foundation

struct Claimed {
    var jobs: [ClaimedJob] = []
    /// Claimed jobs that cannot be sent, and what is wrong with them.
    var broken: [Settlement] = []
    /// Whether jobs remain because of large bodies or unreadable jobs.
    var hasMore = false

    init() {}

    init(_ rows: PostgresRows) throws {
        for index in rows.indices {
            let row = PostgresJobRow(rows: rows, row: index)
            let (job, defect) = try row.read()
            let claim = Claim(id: job.id, token: try row.claimCount)
            if let defect {
                broken.append(Settlement(claim, .dead(defect)))
            } else {
                jobs.append(
                    ClaimedJob(
                        claim: claim, job: job, attemptCount: try row.attemptCount, lapseCount: try row.lapseCount,
                        result: try row.result))
            }
        }
        hasMore = try !broken.isEmpty || rows.count > 0 && rows.bool(0, PostgresJobRow.columnCount) ?? false
    }
}

// Each statement sees what was committed before it started. Two transactions must not miss each other's changes, so
// jobs of a group or key are changed under an advisory lock for its name, and a dependency is locked while a dependent
// job is added.
// Against deadlocks, rows and names are each locked in a fixed order, and in most transactions rows before names. If a
// deadlock occurs anyway, the server detects it, and the transaction is repeated.
struct PostgresRules {
    struct Ended {
        let id: String
        let isDone: Bool
        let isNeeded: Bool
        let group: String?
        let key: String?
    }

    static let endedColumns = "j.id, j.state, j.is_needed, j.group_name, j.unique_key, j.position"

    let connection: PostgresConnection
    let time: PostgresTime
    /// The number of the transaction.
    let number: String
    /// Whether the transaction notifies other instances.
    var bringsWork = false
    var hasSuspects = false

    @discardableResult
    func run(_ statement: String, _ parameters: [PostgresValue] = []) throws(PostgresError) -> PostgresRows {
        try connection.run(statement, parameters)
    }

    @discardableResult
    func run(_ statement: PostgresStatement) throws(PostgresError) -> PostgresRows {
        try connection.run(statement.text, statement.parameters)
    }

    func later(_ statement: PostgresStatement?) {
        if let statement { connection.later(statement) }
    }

    /// The server sends one notification for each transaction, however often the statement runs.
    static let notification = PostgresStatement("SELECT 1 FROM (SELECT pg_notify('convoy_jobs', '')) AS a")

    // A nil parameter stands for the server's time.
    static func now(_ parameter: Int) -> String {
        "coalesce($\(parameter), (extract(epoch FROM now()) * 1000000)::int8)"
    }

    static func date(_ parameter: Int) -> String {
        "coalesce($\(parameter), (extract(epoch FROM now()) - 978307200)::float8)"
    }

    // The locks are held until the transaction ends. All names share 256 locks, because the server's lock table is
    // small.
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

    static func ended(_ rows: PostgresRows) throws -> [Ended] {
        try rows.indices.compactMap { row in
            let state = try rows.int(row, 1) ?? 0
            guard state >= 4 else { return nil }
            return Ended(
                id: try rows.text(row, 0) ?? "", isDone: state == 4, isNeeded: try rows.bool(row, 2) ?? false,
                group: try rows.text(row, 3), key: try rows.text(row, 4))
        }
    }

    mutating func follow(_ ended: [Ended]) throws {
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
        later(Self.lock(groups: Array(groups), keys: Array(keys)))
        if !groups.isEmpty { try free(Self.freeingFirst("group_name", "is_behind_group"), [.texts(Array(groups))]) }
        if !keys.isEmpty { try free(Self.freeingFirst("unique_key", "is_behind_key"), [.texts(Array(keys))]) }
    }

    func drop(_ positions: [Int64], from table: String) throws {
        guard !positions.isEmpty else { return }
        try run("DELETE FROM \(table) WHERE position = ANY($1)", [.ints(positions)])
    }

    private mutating func free(_ statement: String, _ parameters: [PostgresValue]) throws {
        if try run(statement, parameters).ints().contains(0) { bringsWork = true }
    }

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

    /// The caller has locked the groups and keys, also those of the added or moved jobs.
    mutating func hold(_ positions: [Int64], groups: [String], keys: [String]) throws {
        try run(
            """
            SELECT count(*) FROM (SELECT 1 FROM convoy_jobs WHERE id IN (
                SELECT needed FROM convoy_needs WHERE position = ANY($1)) ORDER BY position FOR SHARE) AS a
            """, [.ints(positions)])
        try free(Self.holding("SELECT unnest($1)"), [.ints(positions), .texts(groups), .texts(keys)])
    }

    // Another transaction may change the other values of a job found by its group or key before the update, because
    // they are not locked, so the update takes them from the newest version of the row. It skips such a job if nothing
    // changes; otherwise a deadlock is possible: another transaction may have locked the row of that job, and wait for
    // the group.
    static func holding(_ positions: String) -> String {
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

    /// Returns the number of cancelled jobs.
    mutating func cancel(_ ids: [String]) throws -> Int {
        var next = ids
        var ended: [Ended] = []
        while !next.isEmpty {
            let rows = try run(
                """
                WITH meant AS MATERIALIZED (
                    SELECT position FROM convoy_jobs WHERE id = ANY($1) AND state IN (0, 1, 2, 3, 5)
                    ORDER BY position FOR UPDATE)
                UPDATE convoy_jobs AS j SET state = 6, owner = NULL, lapses = 0, has_result = false, failure = NULL, finished = $2,
                    needs = 0, is_behind_group = false, is_behind_key = false
                FROM meant WHERE j.position = meant.position
                RETURNING \(Self.endedColumns)
                """, [.texts(next), .int(time.now)])
            // The results are deleted by a separate statement. The update may have waited for a lock, and would not see
            // a result that was written during the wait.
            for table in ["convoy_results", "convoy_bodies"] { try drop(rows.ints(5), from: table) }
            let level = try Self.ended(rows)
            ended += level
            let needed = level.filter(\.isNeeded).map(\.id)
            guard !needed.isEmpty else { break }
            let dependents = try run(
                """
                SELECT DISTINCT j.id FROM convoy_needs AS n JOIN convoy_jobs AS j USING (position)
                WHERE n.needed = ANY($1) AND j.state IN (0, 1, 2, 3, 5)
                """, [.texts(needed)])
            next = try dependents.texts()
        }
        try follow(ended)
        return ended.count
    }

    // MARK: Settling

    mutating func settle(_ settlements: [Settlement]) throws -> [Bool] {
        guard !settlements.isEmpty else { return [] }
        var isSettled = settlements.map { _ in false }
        let rows = try run(Self.settling(settlements, number, time, returning: "\(Self.endedColumns), j.number"))
        for row in rows.indices {
            let index = Int(try rows.int(row, 6) ?? 0) - 1
            guard isSettled.indices.contains(index) else { continue }
            isSettled[index] = true
            switch settlements[index].verdict {
            case .answered(let result): try keep(result, at: rows.int(row, 5) ?? 0)
            case .release, .retry: bringsWork = true
            case .done, .dead: break
            }
        }
        try follow(Self.ended(rows))
        return isSettled
    }

    // The columns are those of the settled jobs and the number of the settlement, from 1. IS TRUE hides the state from
    // the planner, which without statistics would use the index of claimed jobs instead of that of ids.
    static func settling(
        _ settlements: [Settlement], _ number: String, _ given: PostgresTime?, returning columns: String
    ) throws -> PostgresStatement {
        PostgresStatement(
            """
            WITH given AS MATERIALIZED (
                SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
                WITH ORDINALITY AS g(id, token, verdict, delay, reason, attempt, number)),
            meant AS MATERIALIZED (
                SELECT j.position, j.has_result AS had_result, g.* FROM given AS g JOIN convoy_jobs AS j USING (id)
                WHERE (j.state = 2 AND j.claim_count = g.token) IS TRUE ORDER BY j.position FOR UPDATE OF j),
            done AS (
                UPDATE convoy_jobs AS j SET owner = NULL, due = \(now(7)) + m.delay, failure = m.reason,
                    lapses = CASE WHEN m.verdict < 0 THEN j.lapses ELSE 0 END,
                    state = CASE WHEN m.verdict > 0 THEN m.verdict WHEN m.verdict < 0 AND j.has_result THEN 3
                        WHEN j.needs > 0 OR j.is_behind_group OR j.is_behind_key THEN 1 ELSE 0 END,
                    has_result = CASE WHEN m.verdict < 0 THEN j.has_result ELSE m.verdict = 3 END,
                    finished = CASE WHEN m.verdict >= 4 THEN \(now(7)) END,
                    attempt_count = j.attempt_count + CASE WHEN m.attempt IS NULL THEN 0 ELSE 1 END,
                    attempts = CASE WHEN m.attempt IS NULL THEN j.attempts
                        ELSE (j.attempts || m.attempt)[greatest(1, cardinality(j.attempts) + 2 - $8)::int4:] END
                FROM meant AS m WHERE j.position = m.position RETURNING j.*, m.number, m.had_result),
            results AS (
                DELETE FROM convoy_results AS r USING done
                WHERE r.position = done.position AND had_result AND NOT has_result),
            bodies AS (
                DELETE FROM convoy_bodies AS b USING done
                WHERE b.position = done.position AND has_body AND state = 4),
            noted AS (UPDATE convoy_commits SET settled = (SELECT array_agg(number) FROM done) WHERE number = $9)
            SELECT \(columns) FROM done AS j
            """,
            [
                .texts(settlements.map(\.claim.id)), .ints(settlements.map(\.claim.token)),
                .ints(settlements.map { self.number(of: $0.verdict) }),
                .ints(settlements.map { if case .retry(let delay) = $0.verdict { microseconds(delay) } else { nil } }),
                .texts(
                    settlements.map {
                        if case .dead(let reason) = $0.verdict { PostgresLimits.visible(reason) } else { nil }
                    }),
                .texts(try settlements.map { try $0.attempt?.json() }), .int(given?.now), .int(JobRecord.maxAttempts),
                .text(number),
            ])
    }

    static func number(of verdict: JobVerdict) -> Int64 {
        switch verdict {
        case .retry: 0
        case .answered: 3
        case .done: 4
        case .dead: 5
        case .release: -1
        }
    }

    static func microseconds(_ duration: Duration) -> Int64 {
        // The duration is limited to a thousand years, because the product of a longer one could overflow and stop the
        // process.
        let (seconds, rest) = min(max(duration, .zero), .seconds(31_556_952_000)).components
        return seconds * 1_000_000 + rest / 1_000_000_000_000
    }

    mutating func keep(_ result: JobResult, at position: Int64) throws {
        bringsWork = true
        try run(
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

    // MARK: Claiming

    // A claim ends with the job whose body makes the total size reach `PostgresLimits.maxStatementBytes`, because the
    // bodies are in memory.
    mutating func claim(_ request: ClaimRequest, by owner: String) throws -> Claimed {
        var all = Claimed()
        for suspects in hasSuspects ? [true, false] : [false] {
            for results in [false, true] where !all.hasMore {
                var rest = request
                rest.limit = (suspects ? min(1, request.limit) : request.limit) - all.jobs.count
                guard let claim = Self.claim(rest, suspects, results, by: owner, noting: number) else { continue }
                let claimed = try Claimed(run(claim))
                _ = try settle(claimed.broken)
                all.jobs += claimed.jobs
                all.hasMore = claimed.hasMore
            }
        }
        return all
    }

    static func condition(_ kinds: ClaimRequest.Kinds) -> (condition: String, kinds: [String])? {
        switch kinds {
        case .all: ("", [])
        case .only(let kinds): kinds.isEmpty ? nil : ("AND kind = ANY($3)", kinds.sorted())
        case .except(let kinds): kinds.isEmpty ? ("", []) : ("AND kind <> ALL($3)", kinds.sorted())
        }
    }

    private static let ready = "state = 0 AND due IS NULL AND not_before IS NULL"
    private static let order = "priority DESC, attempt_count > 0, position"

    private static let hosts = """
        hosts(host) AS (
            (SELECT host FROM convoy_jobs WHERE \(ready) ORDER BY host LIMIT 1)
            UNION ALL SELECT (SELECT j.host FROM convoy_jobs AS j WHERE \(ready) AND j.host > hosts.host
                ORDER BY j.host LIMIT 1)
            FROM hosts WHERE hosts.host IS NOT NULL)
        """

    /// Finds up to four times as many jobs as the limit, because other transactions may have locked or claimed some.
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

    // Nil for no kinds, and for a limit of zero. Suspects are claimed one at a time. The positions of the jobs are
    // recorded under the transaction's number.
    static func claim(
        _ request: ClaimRequest, _ suspects: Bool = false, _ results: Bool = false, by owner: String,
        noting number: String
    ) -> PostgresStatement? {
        guard request.limit > 0, let (kind, kinds) = condition(results ? request.answeredKinds : request.kinds) else {
            return nil
        }
        let isSuspect = """
            lapses >= 2 AND NOT EXISTS (
                SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state = 2 AND owner = $2)
            """
        let isWanted = "\(results ? "state = 3" : ready) AND \(suspects ? isSuspect : "lapses < 2") \(kind)"
        var (before, values) = ("", [PostgresValue.texts(kinds)])
        var meant = """
            SELECT position, priority, attempt_count, has_body FROM convoy_jobs
            WHERE \(isWanted) ORDER BY \(results ? "position" : order) LIMIT $1 FOR UPDATE SKIP LOCKED
            """
        if !suspects, !results, let most = request.maxPerHost {
            before = candidates(isWanted)
            // LATERAL reads the candidates one by one in order, where a join may read all ready jobs for each of them.
            // IS TRUE hides the condition from the planner. Otherwise the planner, if it has no statistics, would use
            // the index of ready jobs instead of that of positions.
            meant = """
                SELECT j.* FROM candidates AS c, LATERAL (
                    SELECT position, priority, attempt_count, has_body FROM convoy_jobs
                    WHERE position = c.position AND (\(isWanted)) IS TRUE
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
            """, [.int(request.limit), .text(owner)] + values)
    }

    static func claimed(under number: String, by owner: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT \(PostgresJobRow.columns(withBody: true)), false FROM convoy_jobs AS j \(PostgresJobRow.joins)
            WHERE j.position = ANY((SELECT positions FROM convoy_commits WHERE number = $1)::int8[])
                AND j.state = 2 AND j.owner = $2 ORDER BY j.priority DESC, j.attempt_count > 0, j.position
            """, [.text(number), .text(owner)])
    }

    /// The database does not notify of the unlocking of a row.
    private static let lockedRowPause = Duration.seconds(1)

    static func looks(_ request: ClaimRequest, _ owner: String) -> [PostgresStatement] {
        let moments = PostgresStatement(
            """
            SELECT (SELECT min(due) FROM convoy_jobs WHERE state = 0 AND due IS NOT NULL),
                (SELECT min(ends) FROM convoy_owners AS o WHERE owner <> $1
                    AND EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 2 AND owner = o.owner)),
                (SELECT min(not_before) FROM convoy_jobs WHERE state = 0 AND not_before IS NOT NULL),
                (SELECT min(expires) FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL)
            """, [.text(owner)])
        guard let (condition, kinds) = condition(request.kinds) else { return [moments] }
        let full = request.maxPerHost == nil ? [] : request.rooms.filter { $0.value <= 0 }.map(\.key)
        // The query counts all current claims of this owner. `request.rooms` includes only the claims before this
        // transaction.
        let isReady = PostgresStatement(
            """
            WITH RECURSIVE \(hosts),
            full_hosts AS MATERIALIZED (
                SELECT host FROM convoy_jobs WHERE owner = $1 AND state = 2 GROUP BY host HAVING count(*) >= $2
                UNION SELECT unnest($4))
            SELECT EXISTS (SELECT 1 FROM hosts WHERE host IS NOT NULL AND host NOT IN (SELECT host FROM full_hosts)
                AND (SELECT true FROM convoy_jobs
                    WHERE \(ready) AND lapses < 2 \(condition) AND convoy_jobs.host = hosts.host LIMIT 1))
            """,
            [.text(owner), .int(request.maxPerHost ?? .max), .texts(kinds), .texts(full)])
        return [moments, isReady]
    }

    // The time until a job becomes ready or expires, or the lease of another owner ends; PostgreSQL sends no
    // notification then. If a moment has passed or a job is ready, the time is at most ``lockedRowPause``.
    static func next(_ looks: [PostgresRows], _ time: PostgresTime) throws -> Duration? {
        // After the recovery of a result nothing is looked for.
        guard let rows = looks.first else { return .zero }
        var moments = try (0...1).compactMap { try rows.bounded(0, $0).map { Duration.microseconds($0 - time.now) } }
        moments += try (2...3).compactMap {
            try rows.double(0, $0).map { Duration.seconds(max(-1e12, min(1e12, $0 - time.date))) }
        }
        // A ready job was not claimed if, for example, another transaction has locked its row.
        let isReady = try looks.dropFirst().first?.bool(0, 0) ?? false
        if isReady || moments.contains(where: { $0 <= .zero }) {
            return min(lockedRowPause, moments.filter { $0 > .zero }.min() ?? lockedRowPause)
        }
        return moments.min()
    }

    // MARK: Leases, dates, expiries

    static func renewal(of owner: String, for lease: Duration, _ given: PostgresTime?) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO convoy_owners VALUES ($1, \(now(2)) + $3)
            ON CONFLICT (owner) DO UPDATE SET ends = excluded.ends
            """, [.text(owner), .int(given?.now), .int(microseconds(lease))])
    }

    /// A single update, because each update runs a trigger that counts jobs.
    static func dueJobs(_ given: PostgresTime?) -> PostgresStatement {
        let (now, date, some) = (now(1), date(2), "LIMIT 5000 FOR UPDATE SKIP LOCKED")
        return PostgresStatement(
            """
            WITH due AS MATERIALIZED (SELECT position FROM convoy_jobs WHERE state = 0 AND due <= \(now) \(some)),
            dated AS MATERIALIZED (SELECT position FROM convoy_jobs WHERE state = 0 AND not_before <= \(date) \(some))
            UPDATE convoy_jobs AS j SET due = CASE WHEN j.due > \(now) THEN j.due END,
                not_before = CASE WHEN j.not_before > \(date) THEN j.not_before END
            FROM (SELECT position FROM due UNION SELECT position FROM dated) AS meant WHERE j.position = meant.position
            """, [.int(given?.now), .double(given?.date)])
    }

    // Why an exchange takes several steps. The parameters are the time, the date, some kinds and the owner.
    static let expired =
        "EXISTS (SELECT 1 FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL AND expires <= \(date(2)))"
    static let lapsed = "EXISTS (SELECT 1 FROM convoy_owners WHERE ends <= \(now(1)) AND owner <> $4)"
    static let suspected = "EXISTS (SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state < 4)"

    /// With nil `kinds`, the call expires no jobs.
    mutating func passTime(for owner: String, telling kinds: ClaimRequest.Kinds?) throws {
        later(Self.dueJobs(time))
        let due = try run(
            "SELECT \(Self.expired), \(Self.lapsed), \(Self.suspected)",
            [.int(time.now), .double(time.date), .texts([]), .text(owner)])
        if let kinds, try due.bool(0, 0) ?? false { try expire(telling: kinds) }
        hasSuspects = try due.bool(0, 2) ?? false
        if try due.bool(0, 1) ?? false {
            hasSuspects = true
            let rows = try run(
                """
                SELECT owner FROM convoy_owners WHERE ends <= $1 AND owner <> $2
                ORDER BY owner FOR UPDATE SKIP LOCKED
                """, [.int(time.now), .text(owner)])
            try endLeases(of: rows.texts(), for: owner)
        }
    }

    private mutating func expire(telling kinds: ClaimRequest.Kinds) throws {
        let told = Self.condition(kinds)
        let isTold = told.map { "(true \($0.condition))" } ?? "false"
        let rows = try run(
            """
            WITH meant AS MATERIALIZED (SELECT position FROM convoy_jobs WHERE state < 2 AND expires <= $1
                LIMIT 5000 FOR UPDATE SKIP LOCKED)
            UPDATE convoy_jobs AS j SET state = CASE WHEN \(isTold) THEN 3 ELSE 5 END, has_result = \(isTold),
                failure = CASE WHEN \(isTold) THEN NULL ELSE $2 END, finished = CASE WHEN \(isTold) THEN NULL ELSE $4 END
            FROM meant WHERE j.position = meant.position RETURNING \(Self.endedColumns)
            """,
            [.double(time.date), .text(JobRecord.expired), .texts(told?.kinds ?? []), .int(time.now)])
        for row in rows.indices where try rows.int(row, 1) == 3 {
            try keep(JobResult(failure: JobRecord.expired), at: rows.int(row, 5) ?? 0)
        }
        try follow(Self.ended(rows))
    }

    /// Claims of other owners count as lapsed; those of `owner` do not.
    mutating func endLeases(of owners: [String], for owner: String) throws {
        guard !owners.isEmpty else { return }
        // The rule of ``JobLife/lapseDelay``: from the second lapse on, a job without a result waits 1, 2, 4 and so on
        // up to 64 seconds.
        let rows = try run(
            """
            WITH meant AS MATERIALIZED (
                SELECT position FROM convoy_jobs WHERE owner = ANY($1) AND state = 2 ORDER BY position FOR UPDATE)
            UPDATE convoy_jobs AS j SET owner = NULL, state = CASE WHEN j.has_result THEN 3 ELSE 0 END,
                lapses = j.lapses + CASE WHEN j.owner <> $2 THEN 1 ELSE 0 END,
                due = CASE WHEN j.owner <> $2 AND NOT j.has_result AND j.lapses > 0
                    THEN $3 + (1000000::int8 << least(6, j.lapses - 1)) END
            FROM meant WHERE j.position = meant.position
            """, [.texts(owners), .text(owner), .int(time.now)])
        if rows.changedCount > 0 { bringsWork = true }
        try run("DELETE FROM convoy_owners WHERE owner = ANY($1)", [.texts(owners)])
    }

    // MARK: Retrying and deleting

    // Returns ids and positions. The jobs are locked until the transaction ends.
    func select(_ selection: JobSelection, in states: Set<JobState>) throws -> PostgresRows {
        var selection = selection
        selection.states = selection.states?.intersection(states) ?? states
        let (condition, parameters) = selection.condition
        return try run(
            "SELECT j.id, j.position FROM convoy_jobs AS j WHERE \(condition) ORDER BY j.position FOR UPDATE OF j",
            parameters)
    }

    /// A new job may get the id of a deleted one, and must not count as a dependency of older jobs.
    func drop(_ positions: [Int64]) throws {
        guard !positions.isEmpty else { return }
        try run(
            """
            DELETE FROM convoy_needs AS n USING convoy_jobs AS j WHERE j.position = ANY($1) AND n.needed = j.id
            """, [.ints(positions)])
        for table in ["convoy_jobs"] + PostgresSchema.partTables { try drop(positions, from: table) }
    }

    mutating func retry(_ ids: [String]) throws -> Int {
        guard !ids.isEmpty else { return 0 }
        let meant = try run(
            """
            WITH RECURSIVE meant(id) AS (
                SELECT unnest($1) COLLATE "C" UNION SELECT j.id FROM meant AS m JOIN convoy_needs AS n ON n.needed = m.id
                JOIN convoy_jobs AS j ON j.position = n.position WHERE j.state = 1)
            SELECT position, group_name, unique_key FROM convoy_jobs WHERE id IN (SELECT id FROM meant)
            ORDER BY position FOR UPDATE
            """, [.texts(ids)])
        let groups = try meant.texts(1)
        let keys = try meant.texts(2)
        later(Self.lock(groups: groups, keys: keys))
        try run(
            """
            UPDATE convoy_jobs SET state = 0, failure = NULL, attempt_count = 0, lapses = 0, due = NULL, finished = NULL,
                expires = CASE WHEN expires > $2 THEN expires END
            WHERE id = ANY($1) AND state = 5
            """, [.texts(ids), .double(time.date)])
        let moved = try move(meant.ints())
        try hold(moved, groups: groups, keys: keys)
        bringsWork = true
        return ids.count
    }

    private func move(_ positions: [Int64]) throws -> [Int64] {
        let rows = try run(
            "SELECT nextval('convoy_positions') FROM generate_series(1, $1)", [.int(positions.count)])
        let new = try rows.ints().sorted()
        for table in ["convoy_jobs"] + PostgresSchema.partTables {
            try run(
                """
                UPDATE \(table) AS t SET position = m.new FROM unnest($1, $2) AS m(old, new) WHERE t.position = m.old
                """, [.ints(positions), .ints(new)])
        }
        return new
    }
}

// Statements may depend on rows of earlier statements.
extension PostgresRules {
    mutating func add(_ jobs: [Job]) throws -> [JobAddition] {
        var (added, additions) = (Set<String>(), [JobAddition]())
        for run in Self.runs(jobs) { additions += try add(run, after: &added) }
        return additions
    }

    /// A job with the policy `keep` or `replace` is a separate run, because its outcome depends on the jobs before it.
    static func runs(_ jobs: [Job]) -> [[Job]] {
        var runs: [[Job]] = []
        var (isOpen, byteCount) = (false, 0)
        for job in jobs {
            let bytes = job.request.body?.data?.count ?? 0
            let isAlone = job.uniqueness.map { $0.policy != .append } ?? false
            if isOpen, !isAlone, let last = runs.indices.last, runs[last].count < 2_000,
                byteCount + bytes <= PostgresLimits.maxStatementBytes
            {
                runs[last].append(job)
                byteCount += bytes
            } else {
                runs.append([job])
                byteCount = bytes
            }
            isOpen = !isAlone
        }
        return runs
    }

    private mutating func add(_ run: [Job], after added: inout Set<String>) throws -> [JobAddition] {
        // A second job with the same id in the run counts as existing. Without dependencies and keys, the insertion itself
        // skips existing ids.
        var known: Set<String> = []
        if run.contains(where: { !$0.dependencies.isEmpty || $0.uniqueness != nil }) {
            known = Set(
                try self.run("SELECT id FROM convoy_jobs WHERE id = ANY($1)", [.texts(run.map(\.id))]).texts())
        }
        let new = run.filter { known.insert($0.id).inserted }
        try checkDependencies(of: new, after: added)
        if let only = new.first, new.count == 1, let uniqueness = only.uniqueness, uniqueness.policy != .append {
            if let kept = try apply(uniqueness) { return [JobAddition(id: kept, outcome: .kept)] }
        }
        later(Self.lock(groups: new.map(\.group), keys: new.map { $0.uniqueness?.key }))
        let inserted = try insert(new)
        try relate(new.filter { inserted[$0.id] != nil }, inserted)
        return run.map { job in
            let isAdded = inserted[job.id] != nil && added.insert(job.id).inserted
            return JobAddition(id: job.id, outcome: isAdded ? .added : .alreadyThere)
        }
    }

    // Each dependency is locked, so that it cannot end unnoticed during this transaction. The lock is not `FOR SHARE`,
    // because two transactions with the same dependency would then deadlock when they mark it as needed.
    private func checkDependencies(of jobs: [Job], after added: Set<String>) throws {
        var known = added
        var needed: [(job: String, dependency: String)] = []
        for job in jobs {
            needed += job.dependencies.filter { !known.contains($0) }.map { (job.id, $0) }
            known.insert(job.id)
        }
        guard !needed.isEmpty else { return }
        let rows = try run(
            "SELECT id FROM convoy_jobs WHERE id = ANY($1) ORDER BY position FOR NO KEY UPDATE",
            [.texts(Array(Set(needed.map(\.dependency))))])
        let there = Set(try rows.texts())
        for (job, dependency) in needed where !there.contains(dependency) {
            throw QueueError(.unknownJob, "\(job.shownID) depends on \(dependency.shownID), which does not exist")
        }
    }

    /// Returns the id of an existing job to keep; nil if the new job must be added.
    private mutating func apply(_ uniqueness: Job.Uniqueness) throws -> String? {
        later(Self.lock(groups: [], keys: [uniqueness.key]))
        let rows = try run(
            "SELECT id FROM convoy_jobs WHERE unique_key = $1 AND state < 4 ORDER BY position", [.text(uniqueness.key)])
        let others = try rows.texts()
        if uniqueness.policy == .keep { return others.first }
        _ = try cancel(others)
        return nil
    }

    /// Returns the positions by id.
    private mutating func insert(_ jobs: [Job]) throws -> [String: Int64] {
        guard !jobs.isEmpty else { return [:] }
        let rows = try run(PostgresJobs.insertion(of: jobs, number, time))
        if rows.count > 0 { bringsWork = true }
        return try rows.indices.reduce(into: [:]) { $0[try rows.text($1, 0) ?? ""] = try rows.int($1, 1) }
    }

    private mutating func relate(_ jobs: [Job], _ positions: [String: Int64]) throws {
        let related = jobs.filter { !$0.dependencies.isEmpty || $0.group != nil || $0.uniqueness != nil }
        guard !related.isEmpty else { return }
        let needs = related.flatMap { job in
            job.dependencies.enumerated().map { (position: positions[job.id], number: $0.offset, needed: $0.element) }
        }
        if !needs.isEmpty {
            try run(
                "INSERT INTO convoy_needs (position, number, needed) SELECT * FROM unnest($1, $2, $3)",
                [.ints(needs.map(\.position)), .ints(needs.map { Int64($0.number) }), .texts(needs.map(\.needed))])
            try run(
                "UPDATE convoy_jobs SET is_needed = true WHERE id = ANY($1) AND NOT is_needed",
                [.texts(Array(Set(needs.map(\.needed))))])
        }
        let new = related.compactMap { positions[$0.id] }
        try hold(new, groups: [], keys: [])
        guard !needs.isEmpty else { return }
        let rows = try run(
            """
            SELECT DISTINCT j.id FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
            JOIN convoy_jobs AS j ON j.position = n.position WHERE n.position = ANY($1) AND o.state = 6
            """, [.ints(new)])
        _ = try cancel(rows.texts())
    }
}
