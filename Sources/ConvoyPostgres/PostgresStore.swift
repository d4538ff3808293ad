import CPostgres
import Convoy
import ConvoyQueue
import Foundation

/// Jobs in a PostgreSQL database, for any number of processes on any number of machines.
///
/// ```swift
/// let store = try await PostgresStore("postgres://queue@db.example/orders")
/// ```
///
/// The system's libpq is loaded when the first store is made, so building a program does not require it. The first
/// process creates the tables, whose names begin with `convoy_`, in the first schema of the role's search path. The
/// server must be PostgreSQL 13 or newer. The store uses the server's time, so the clocks of the machines do not
/// matter. Each call tries for 15 seconds to reopen a lost connection.
///
/// The database must have the encoding UTF8. A body larger than 256 MiB, or a NUL in a text of a job, throws
/// `.invalidJob`. In the reason of a dead letter a NUL is stored as `␀`.
///
/// ## Concurrency
/// With libpq 14 or newer, an addition, an exchange or a read usually takes one round trip. Other calls take several.
/// There is one connection for claims and heartbeats and one for all other calls, each with its own blocking queue.
/// Another connection listens from the first call of ``changes()`` until the store is closed.
///
/// ## Topics
/// - ``init(_:)``
/// - ``owner``
/// - ``pollInterval``
public final class PostgresStore: Store {
    /// The name of this instance as an owner of leases.
    public let owner = UUID().uuidString

    /// How often a queue polls: every minute, because notifications are missed while the connection is reopened.
    public let pollInterval: Duration? = .seconds(60)

    /// They must not wait for a long list of additions, which runs on the session `callers`.
    let workers: PostgresSession
    let callers: PostgresSession
    let additions: AdditionGroup
    private let listener: PostgresListener
    /// Exchanges run step by step until this instant, a second after one failed to run in one round trip.
    let stepsUntil = Locked(ContinuousClock.now)

    /// Connects, and creates the tables if there are none.
    ///
    /// - Parameter address: `postgres://user@host:port/database`, or libpq's `key=value …`. Put a password into
    ///   `~/.pgpass` or `PGPASSWORD` instead of the address. A pooler must use session mode.
    /// - Throws: `.unavailable` without a server or libpq, for a server older than PostgreSQL 13, for a database that is
    ///   not UTF8, without a schema for the tables, and behind a pooler in transaction mode; `.newerSchema`; `.foreignFile` for tables of another program; `.notPermitted` for a role
    ///   that may not create or read the tables; `.failed` for an invalid address.
    public convenience init(_ address: String) async throws(QueueError) { try await self.init(address, time: nil) }

    init(
        _ address: String, time: (@Sendable () -> PostgresTime)?, patience: Duration = PostgresSession.usualPatience,
        library: Result<convoy_pg_functions, PostgresError> = PostgresLibrary.shared
    ) async throws(QueueError) {
        workers = PostgresSession(address, name: "work", patience: patience, time: time, library: library)
        callers = PostgresSession(address, name: "calls", patience: patience, time: time, library: library)
        listener = PostgresListener(address)
        additions = AdditionGroup { [callers] lists, done in
            Task { done(await PostgresAdditions.commit(lists, on: callers)) }
        }
        async let other = callers.connect()
        let results = (await workers.connect(), await other)
        try results.0.get()
        try results.1.get()
    }

    deinit { listener.close() }

    /// A stream with an element whenever an instance may have made a job claimable, or has cancelled a job.
    public func changes() -> AsyncStream<Void> { listener.changes() }

    /// Releases all claims and closes the connections.
    ///
    /// A second call has no effect.
    public func close() async {
        try? await release()
        listener.close()
        await workers.close()
        await callers.close()
    }

    /// Adds all jobs or none, in order.
    ///
    /// Lists of concurrent callers share one transaction if none of their jobs has dependencies, or the policy `keep`
    /// or `replace`.
    public func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        for job in jobs {
            if let defect = PostgresLimits.defect(of: job) { throw QueueError(.invalidJob, "\(job.id): \(defect)") }
        }
        guard !jobs.isEmpty else { return [] }
        return try await additions.add(jobs)
    }

    // MARK: Claimed jobs

    /// Settles claimed jobs, then claims others.
    public func exchange(
        _ settlements: [Settlement], claiming request: ClaimRequest?
    ) async throws(QueueError) -> Exchange {
        try await giveBackUnknown()
        let exchange = PostgresExchange(settlements: settlements, request: request, owner: owner)
        var work = PostgresWork(steps: exchange.steps)
        if exchange.isPossible, stepsUntil.withLock({ $0 < .now }) { work.whole = exchange.whole }
        let outcome = try await workers.perform(work)
        if let broken = outcome.broken {
            if !broken.isEmpty { try await workers.change { rules in _ = try rules.settle(broken) } }
        } else if work.whole != nil {
            // If one round trip was not possible, the cause may last, for example a suspect, a waiting result or a job
            // with dependents. So exchanges run step by step for a second.
            stepsUntil.withLock { $0 = .now + .seconds(1) }
        }
        return outcome.exchange
    }

    /// The queue does not know these jobs; without the release, the heartbeat would renew their leases forever.
    private func giveBackUnknown() async throws(QueueError) {
        // Two calls must not release the same claims: between them, the jobs may be claimed again.
        let numbers = workers.unknown.withLock { numbers in
            defer { numbers = [] }
            return numbers
        }
        guard !numbers.isEmpty else { return }
        do throws(QueueError) {
            try await workers.change { [owner] rules in
                // `mark` waits until a transaction with the same number has ended, so that the update sees its claims.
                for number in numbers { rules.later(PostgresConnection.mark(number)) }
                let rows = try rules.run(
                    """
                    UPDATE convoy_jobs SET owner = NULL, state = CASE WHEN has_result THEN 3 ELSE 0 END
                    WHERE owner = $1 AND state = 2 AND position IN (
                        SELECT unnest(positions) FROM convoy_commits WHERE number = ANY($2))
                    """, [.text(owner), .texts(numbers)])
                if rows.changedCount > 0 { rules.bringsWork = true }
            }
        } catch {
            workers.unknown.withLock { $0 += numbers }
            throw error
        }
    }

    /// Renews the leases of this instance: the heartbeat.
    public func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try await workers.change { [owner] rules in
            try rules.passTime(for: owner, telling: nil)
            try rules.run(PostgresRules.renewal(of: owner, for: lease, rules.time))
            // A call of the store reads its transaction number to learn whether an earlier attempt was committed, by
            // default for 15 seconds. If `exchange` ends without knowing this, its next call reads the number.
            rules.later(
                PostgresStatement(
                    """
                    DELETE FROM convoy_commits WHERE number IN (SELECT number FROM convoy_commits
                        WHERE made < (extract(epoch FROM clock_timestamp()) * 1000000)::int8 - 600000000
                        ORDER BY made LIMIT 5000 FOR UPDATE SKIP LOCKED)
                    """))
            let rows = try rules.run(
                "SELECT id, claim_count FROM convoy_jobs WHERE owner = $1 AND state = 2", [.text(owner)])
            let held = Set(
                try rows.indices.map { Claim(id: try rows.text($0, 0) ?? "", token: try rows.int($0, 1) ?? 0) })
            return claims.filter { !held.contains($0) }
        }
    }

    /// Releases all jobs that this instance has claimed.
    public func release() async throws(QueueError) {
        // A standby accepts only this search, so a store that has only read is closed there at once.
        let search = PostgresStatement("SELECT 1 FROM convoy_owners WHERE owner = $1", [.text(owner)])
        guard try await workers.read(search, { rows, _ in rows.count > 0 }) else { return }
        try await workers.change { [owner] rules in try rules.endLeases(of: [owner], for: owner) }
    }

    // MARK: Changes that a caller requests

    /// Cancels unfinished and dead jobs, and the jobs that depend on them.
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.change { rules in
            let meant = try rules.select(selection, in: [.waiting, .blocked, .claimed, .answered, .dead])
            let count = try rules.cancel(meant.texts())
            // A notification also wakes callers of `drain`.
            if count > 0 { rules.bringsWork = true }
            return count
        }
    }

    /// Sends dead letters again.
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.change { rules in try rules.retry(rules.select(selection, in: [.dead]).texts()) }
    }

    /// Acknowledges results that wait for a handler.
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.change { rules in
            let positions = try rules.select(selection, in: [.answered]).ints(1)
            let rows = try rules.run(
                """
                UPDATE convoy_jobs AS j SET state = 4, has_result = false, finished = $2
                WHERE position = ANY($1) AND state = 3 RETURNING \(PostgresRules.endedColumns)
                """, [.ints(positions), .int(rules.time.now)])
            for table in ["convoy_results", "convoy_bodies"] { try rules.drop(positions, from: table) }
            try rules.follow(PostgresRules.ended(rows))
            // Other queues may have stopped claiming because too many results waited.
            if rows.count > 0 { rules.bringsWork = true }
            return rows.count
        }
    }

    /// Deletes finished jobs, including dead letters.
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.change { rules in
            let rows = try rules.select(selection, in: [.done, .dead, .cancelled])
            // Of these, only dead letters can be cancelled, with the jobs that depend on them.
            _ = try rules.cancel(rows.texts())
            try rules.drop(rows.ints(1))
            return rows.count
        }
    }

    /// Deletes up to 5,000 jobs that were done or cancelled at least this long ago, but no dead letters.
    public func purge(olderThan age: Duration) async throws(QueueError) -> Int {
        try await callers.change { rules in
            let positions = try rules.run(
                """
                SELECT position FROM convoy_jobs WHERE state IN (4, 6) AND finished <= $1
                ORDER BY finished LIMIT 5000 FOR UPDATE SKIP LOCKED
                """, [.int(rules.time.now - PostgresRules.microseconds(age))]
            ).ints()
            try rules.drop(positions)
            return positions.count
        }
    }

    // MARK: Reading

    /// A job with all stored details.
    public func job(_ id: String) async throws(QueueError) -> JobRecord? {
        try await records("j.id = $1", [.text(id)], limit: 1, withBody: true).first
    }

    /// The jobs of a selection in the order of `JobRecord.position`, without the bytes of their bodies and results.
    public func jobs(
        _ selection: JobSelection, after position: Int64, limit: Int
    ) async throws(QueueError) -> [JobRecord] {
        let (condition, parameters) = selection.condition
        return try await records(
            "\(condition) AND j.position > $\(parameters.count + 1)", parameters + [.int(position)], limit: limit,
            withBody: false)
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
            try rows.indices.map { try PostgresJobRow(rows: rows, row: $0).record(time) }
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
            try rows.indices.compactMap { row in
                guard let id = try rows.text(row, 0), let state = try rows.state(row, 1),
                    let reason = try rows.text(row, 2).flatMap({ JobBlocker.Reason(rawValue: $0) })
                else { return nil }
                return JobBlocker(id: id, state: state, reason: reason)
            }
        }
    }

    /// The number of jobs by kind and state.
    public func status() async throws(QueueError) -> QueueStatus {
        let statement = PostgresStatement(
            "SELECT kind, state, sum(count)::int8 FROM convoy_counts GROUP BY kind, state HAVING sum(count) <> 0")
        return try await callers.read(statement) { rows, _ in
            try rows.indices.reduce(into: QueueStatus()) { status, row in
                guard let kind = try rows.text(row, 0), let state = try rows.state(row, 1) else { return }
                status.counts[kind, default: [:]][state] = Int(try rows.bounded(row, 2) ?? 0)
            }
        }
    }
}

extension JobSelection {
    /// Only the criteria that are set, so that the server can use an index.
    var condition: (text: String, parameters: [PostgresValue]) {
        var (conditions, parameters) = (["true"], [PostgresValue]())
        func add(_ condition: String, _ value: PostgresValue) {
            parameters.append(value)
            conditions.append(condition.replacing("?", with: "$\(parameters.count)"))
        }
        if let ids { add("j.id = ANY(?)", .texts(ids.sorted())) }
        if let states {
            let numbers = PostgresSchema.states.indices.filter { states.contains(PostgresSchema.states[$0]) }
            add("j.state = ANY(?)", .ints(numbers.map { Int64($0) }))
        }
        if let kind { add("j.kind = ?", .text(kind)) }
        if let group { add("j.group_name = ?", .text(group)) }
        if let tag {
            let tagged = "EXISTS (SELECT 1 FROM convoy_contents AS t WHERE t.position = j.position AND ? = ANY(t.tags))"
            add(tagged, .text(tag))
        }
        return (conditions.joined(separator: " AND "), parameters)
    }
}

// One round trip is possible only if no job that ends has dependents, a group or a key, and without results, expired
// jobs, ended leases and suspects. If another condition than ``isPossible`` is not met, the transaction fails, and the
// exchange then runs step by step.
struct PostgresExchange: Sendable {
    struct Outcome: Sendable {
        let exchange: Exchange
        /// Claimed jobs that cannot be read, after one round trip; nil after several, which have settled them.
        let broken: [Settlement]?
    }

    let settlements: [Settlement]
    let request: ClaimRequest?
    let owner: String

    /// To store a result, a statement needs the job's position from an earlier statement.
    var isPossible: Bool {
        !settlements.contains { if case .answered = $0.verdict { true } else { false } }
    }

    func steps(_ rules: inout PostgresRules) throws -> Outcome {
        let isSettled = try rules.settle(settlements)
        var (claimed, looks) = (Claimed(), [PostgresStatement]())
        if let request {
            try rules.passTime(for: owner, telling: request.answeredKinds)
            try rules.run(PostgresRules.renewal(of: owner, for: request.lease, rules.time))
            claimed = try rules.claim(request, by: owner)
            looks = PostgresRules.looks(request, owner)
        }
        return try outcome(isSettled, claimed, broken: nil) {
            try PostgresRules.next(rules.connection.run(looks), rules.time)
        }
    }

    private func outcome(
        _ isSettled: [Bool], _ claimed: Claimed, broken: [Settlement]?, _ look: () throws -> Duration?
    ) rethrows -> Outcome {
        let isFull = request.map { claimed.jobs.count >= $0.limit } ?? true
        let next = try isFull ? nil : claimed.hasMore ? .zero : look()
        return Outcome(exchange: Exchange(isSettled: isSettled, jobs: claimed.jobs, next: next), broken: broken)
    }

    func whole(_ number: String, _ given: PostgresTime?) throws -> PostgresWork<Outcome>.Whole {
        var (statements, recovery, wanted) = ([PostgresStatement](), [PostgresStatement](), [Int]())
        if !settlements.isEmpty {
            // If a job that ends concerns other jobs, the statement divides by zero.
            let concerns = "state >= 4 AND (is_needed OR group_name IS NOT NULL OR unique_key IS NOT NULL)"
            let columns = "number, 1 / CASE WHEN \(concerns) THEN 0 ELSE 1 END"
            statements.append(try PostgresRules.settling(settlements, number, given, returning: columns))
            recovery.append(
                PostgresStatement("SELECT unnest(settled) FROM convoy_commits WHERE number = $1", [.text(number)]))
            wanted.append(0)
        }
        let claim = request.flatMap { PostgresRules.claim($0, by: owner, noting: number) }
        if let request {
            statements += [
                check(request, given), PostgresRules.dueJobs(given),
                PostgresRules.renewal(of: owner, for: request.lease, given),
            ]
            let last = [claim].compactMap(\.self) + PostgresRules.looks(request, owner)
            wanted += statements.count..<statements.count + last.count
            statements += last
            if claim != nil { recovery.append(PostgresRules.claimed(under: number, by: owner)) }
        }
        if settlements.contains(where: { PostgresRules.number(of: $0.verdict) <= 0 }) {
            statements.append(PostgresRules.notification)
        }
        return PostgresWork.Whole(statements: statements, wanted: wanted, recovery: recovery) { rows, time in
            var rows = rows[...]
            let numbers = try settlements.isEmpty ? [] : Set(rows.removeFirst().ints())
            let claimed = try claim == nil ? Claimed() : Claimed(rows.removeFirst())
            let isSettled = settlements.indices.map { numbers.contains(Int64($0 + 1)) }
            return try outcome(isSettled, claimed, broken: claimed.broken) {
                try PostgresRules.next(Array(rows), time)
            }
        }
    }

    /// If a condition is not met, the statement divides by zero, and so the transaction fails.
    private func check(_ request: ClaimRequest, _ given: PostgresTime?) -> PostgresStatement {
        let answered = PostgresRules.condition(request.answeredKinds)
        let waits = "OR EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 3 \(answered?.condition ?? ""))"
        return PostgresStatement(
            """
            SELECT 1 / CASE WHEN \(PostgresRules.expired) OR \(PostgresRules.lapsed) OR \(PostgresRules.suspected)
                \(answered == nil ? "" : waits) THEN 0 ELSE 1 END
            """, [.int(given?.now), .double(given?.date), .texts(answered?.kinds ?? []), .text(owner)])
    }
}

// A job without dependencies is written without reading the tables first, unless its policy is `keep` or `replace`.
// Consecutive lists that have only such jobs are committed together; if the server rejects them, each list is added
// separately, because one list may have caused the error.
enum PostgresAdditions {
    static func commit(_ lists: [[Job]], on session: PostgresSession) async -> [AdditionGroup.Outcome] {
        var outcomes: [AdditionGroup.Outcome] = []
        var rest = lists[...]
        while !rest.isEmpty {
            let together = rest.prefix(max(1, rest.prefix { $0.allSatisfy(isPlain) }.count))
            rest = rest.dropFirst(together.count)
            let outcome = await add(Array(together.joined()), on: session)
            switch outcome {
            case .success(let additions):
                var others = additions[...]
                for list in together {
                    outcomes.append(.success(Array(others.prefix(list.count))))
                    others = others.dropFirst(list.count)
                }
            case .failure(let error) where together.count == 1 || [.unavailable, .closed].contains(error.code):
                outcomes += together.map { _ in outcome }
            case .failure:
                for list in together { outcomes.append(await add(list, on: session)) }
            }
        }
        return outcomes
    }

    private static func add(_ jobs: [Job], on session: PostgresSession) async -> AdditionGroup.Outcome {
        var work = PostgresWork { rules in try rules.add(jobs) }
        if jobs.allSatisfy(isPlain), PostgresRules.runs(jobs).count == 1 {
            work.whole = { number, given in try whole(jobs, number, given) }
        }
        do { return .success(try await session.perform(work)) } catch { return .failure(error) }
    }

    private static func isPlain(_ job: Job) -> Bool {
        job.dependencies.isEmpty && job.uniqueness.map { $0.policy == .append } ?? true
    }

    /// All statements are known in advance, because no row must be read first.
    private static func whole(
        _ jobs: [Job], _ number: String, _ given: PostgresTime?
    ) throws -> PostgresWork<[JobAddition]>.Whole {
        var ids: Set<String> = []
        let insertion = try PostgresJobs.insertion(of: jobs.filter { ids.insert($0.id).inserted }, number, given)
        let lock = PostgresRules.lock(groups: jobs.map(\.group), keys: jobs.map { $0.uniqueness?.key })
        let holding = PostgresStatement(
            PostgresRules.holding("SELECT unnest(positions) FROM convoy_commits WHERE number = $1"),
            [.text(number), .texts([]), .texts([])])
        let statements = lock.map { [$0, insertion, holding] } ?? [insertion]
        let added = PostgresStatement(
            """
            SELECT id FROM convoy_jobs WHERE position = ANY(
                (SELECT positions FROM convoy_commits WHERE number = $1)::int8[])
            """, [.text(number)])
        return PostgresWork.Whole(
            statements: statements + [PostgresRules.notification], wanted: [lock == nil ? 0 : 1], recovery: [added]
        ) { rows, _ in
            var added = Set(try rows[0].texts())
            return jobs.map { JobAddition(id: $0.id, outcome: added.remove($0.id) == nil ? .alreadyThere : .added) }
        }
    }
}
