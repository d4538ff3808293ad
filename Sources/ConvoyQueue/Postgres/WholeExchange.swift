// An exchange in one round trip.
import Convoy

/// An exchange whose statements do not depend on each other's rows.
///
/// One round trip is possible only if no job that ends has dependents, a group or a key. There must also be no result
/// to store or to handle, no expired job, no ended lease and no suspect.
///
/// If there is a result to store, ``isPossible`` is false and one round trip is not tried. If another condition is not
/// met, the transaction fails, and the exchange then runs step by step.
struct WholeExchange: Sendable {
    private let settlements: [Settlement]
    private let request: ClaimRequest?
    private let owner: String

    init(_ settlements: [Settlement], _ request: ClaimRequest?, _ owner: String) {
        (self.settlements, self.request, self.owner) = (settlements, request, owner)
    }

    /// Whether no settlement has a result to store.
    ///
    /// To store a result, a statement needs the job's position from an earlier statement.
    var isPossible: Bool {
        !settlements.contains { if case .answered = $0.verdict { true } else { false } }
    }

    /// The exchange as statements that are all known in advance.
    ///
    /// - Parameter found: receives claimed jobs that cannot be read.
    func work(
        _ number: String, _ given: PostgresTime?,
        found: @escaping @Sendable ([(position: Int64, defect: String)]) -> Void
    ) throws -> PostgresWork<Exchange>.Whole {
        var statements: [PostgresStatement] = []
        if !settlements.isEmpty { statements.append(try settling(number, given)) }
        let bringsWork = settlements.contains { [.release, .retry].contains(Kind($0.verdict)) }
        var (claim, looks) = (Int?.none, 0..<0)
        if let request {
            statements += [check(request, given), dueJobs(given), renewal(request, given)]
            if let claiming = PostgresRules.claimReady(request, by: owner, noting: number) {
                claim = statements.count
                statements.append(claiming)
            }
            let all = PostgresRules.looks(request, owner)
            looks = statements.count..<statements.count + all.count
            statements += all
        }
        if bringsWork { statements.append(PostgresRules.notification) }
        let (settlements, request, owner) = (settlements, request, owner)
        return PostgresWork.Whole(
            statements: statements,
            read: { [claim, looks] rows, time in
                let isSettled = settlements.isEmpty ? [] : try Self.settled(settlements, rows[0])
                let claimed = try claim.map { try PostgresRules.claimed(rows[$0]) }
                found(claimed?.broken ?? [])
                let (jobs, hasMore) = (claimed?.jobs ?? [], claimed?.hasMore ?? false)
                guard let request, jobs.count < request.limit else {
                    return Exchange(isSettled: isSettled, jobs: jobs, next: nil)
                }
                let next = hasMore ? .zero : try PostgresRules.next(Array(rows[looks]), time)
                return Exchange(isSettled: isSettled, jobs: jobs, next: next)
            },
            recover: { transaction, number in
                let settled = try transaction.run(
                    "SELECT unnest(settled) FROM convoy_commits WHERE number = $1", [.text(number)])
                let claiming = PostgresRules.claimed(under: number, by: owner)
                let claimed = try PostgresRules.claimed(transaction.run(claiming.text, claiming.parameters))
                found(claimed.broken)
                let next = request.map { claimed.jobs.count < $0.limit } ?? false ? Duration.zero : nil
                return Exchange(
                    isSettled: try Self.settled(settlements, settled), jobs: claimed.jobs, next: next)
            })
    }

    /// The kind of a verdict, without its values.
    private enum Kind {
        case retry, release, other

        init(_ verdict: JobVerdict) {
            switch verdict {
            case .retry: self = .retry
            case .release: self = .release
            case .done, .dead, .answered: self = .other
            }
        }
    }

    /// - Parameter rows: the numbers of the accepted settlements, counted from 1.
    private static func settled(_ settlements: [Settlement], _ rows: PostgresRows) throws -> [Bool] {
        let numbers = Set(try (0..<rows.count).compactMap { try rows.int(0 + $0, 0) })
        return settlements.indices.map { numbers.contains(Int64($0 + 1)) }
    }

    // MARK: Statements

    private static func now(_ parameter: Int) -> String {
        "coalesce($\(parameter), (extract(epoch FROM now()) * 1000000)::int8)"
    }

    private static func date(_ parameter: Int) -> String {
        "coalesce($\(parameter), (extract(epoch FROM now()) - 978307200)::float8)"
    }

    private func settling(_ number: String, _ given: PostgresTime?) throws -> PostgresStatement {
        PostgresStatement(
            """
            WITH given AS MATERIALIZED (
                SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
                WITH ORDINALITY AS g(id, token, verdict, delay, reason, attempt, number)),
            meant AS MATERIALIZED (
                SELECT j.position, j.has_result AS had_result, g.* FROM given AS g JOIN convoy_jobs AS j USING (id)
                WHERE \(PostgresRules.isClaimed) ORDER BY j.position FOR UPDATE OF j),
            done AS (
                UPDATE convoy_jobs AS j SET \(PostgresRules.settling(due: Self.now(7) + " + m.delay", now: Self.now(7)))
                FROM meant AS m WHERE j.position = m.position
                RETURNING j.position, j.state, m.had_result AND NOT j.has_result AS leaves_result, j.has_body, m.number,
                    j.state >= 4 AND (j.is_needed OR j.group_name IS NOT NULL OR j.unique_key IS NOT NULL) AS concerns),
            results AS (
                DELETE FROM convoy_results AS r USING done WHERE r.position = done.position AND leaves_result),
            bodies AS (
                DELETE FROM convoy_bodies AS b USING done
                WHERE b.position = done.position AND done.has_body AND done.state = 4),
            noted AS (UPDATE convoy_commits SET settled = (SELECT array_agg(number) FROM done) WHERE number = $9)
            SELECT number, 1 / CASE WHEN concerns THEN 0 ELSE 1 END FROM done
            """,
            [
                .texts(settlements.map(\.claim.id)), .ints(settlements.map(\.claim.token)),
                .ints(settlements.map { PostgresRules.number(of: $0.verdict) }),
                .ints(settlements.map { PostgresRules.delay(of: $0.verdict) }),
                .texts(settlements.map { PostgresRules.reason(of: $0.verdict) }),
                .texts(try settlements.map { try $0.attempt?.json() }),
                .int(given?.now), .int(JobRecord.maxAttempts), .text(number),
            ])
    }

    /// The statement that checks the conditions for one round trip.
    ///
    /// If a condition is not met, the statement divides by zero, and so the transaction fails.
    private func check(_ request: ClaimRequest, _ given: PostgresTime?) -> PostgresStatement {
        let answered = PostgresRules.condition(request.answeredKinds)
        let waits = "OR EXISTS (SELECT 1 FROM convoy_jobs WHERE state = 3 \(answered?.condition ?? ""))"
        return PostgresStatement(
            """
            SELECT 1 / CASE WHEN
                EXISTS (SELECT 1 FROM convoy_jobs WHERE state < 2 AND expires IS NOT NULL AND expires <= \(Self.date(2)))
                OR EXISTS (SELECT 1 FROM convoy_owners WHERE ends <= \(Self.now(1)) AND owner <> $4)
                OR EXISTS (SELECT 1 FROM convoy_jobs WHERE lapses >= 2 AND state < 4)
                \(answered == nil ? "" : waits)
            THEN 0 ELSE 1 END
            """, [.int(given?.now), .double(given?.date), .texts(answered?.kinds ?? []), .text(owner)])
    }

    /// The statement that makes jobs ready whose date or delay has passed.
    ///
    /// It is a single update, because each update runs a trigger that counts jobs.
    private func dueJobs(_ given: PostgresTime?) -> PostgresStatement {
        let (now, date) = (Self.now(1), Self.date(2))
        let some = "LIMIT 5000 FOR UPDATE SKIP LOCKED"
        return PostgresStatement(
            """
            WITH due AS MATERIALIZED (SELECT position FROM convoy_jobs WHERE state = 0 AND due <= \(now) \(some)),
            dated AS MATERIALIZED (SELECT position FROM convoy_jobs WHERE state = 0 AND not_before <= \(date) \(some))
            UPDATE convoy_jobs AS j SET due = CASE WHEN j.due > \(now) THEN j.due END,
                not_before = CASE WHEN j.not_before > \(date) THEN j.not_before END
            FROM (SELECT position FROM due UNION SELECT position FROM dated) AS meant WHERE j.position = meant.position
            """, [.int(given?.now), .double(given?.date)])
    }

    private func renewal(_ request: ClaimRequest, _ given: PostgresTime?) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO convoy_owners VALUES ($1, \(Self.now(2)) + $3)
            ON CONFLICT (owner) DO UPDATE SET ends = excluded.ends
            """, [.text(owner), .int(given?.now), .int(PostgresRules.microseconds(request.lease))])
    }
}
