// Combines additions of several callers in one transaction.
import Convoy

/// Adds jobs on one session, and commits the lists of concurrent callers together if possible.
///
/// A job without dependencies is written without reading the tables first, unless its policy is `keep` or `replace`.
/// Consecutive lists that have only such jobs are committed together. A list with any other job is added separately,
/// step by step. If the server rejects lists that were combined, each list is added separately, because one list may
/// have caused the error.
final class PostgresAdditions: Sendable {
    let group: AdditionGroup

    init(on session: PostgresSession) {
        group = AdditionGroup { lists, done in
            Task { done(await Self.commit(lists, on: session)) }
        }
    }

    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] { try await group.add(jobs) }

    private static func commit(_ lists: [[Job]], on session: PostgresSession) async -> [AdditionGroup.Outcome] {
        var outcomes: [AdditionGroup.Outcome] = []
        var rest = lists[...]
        while let first = rest.first {
            let together = rest.prefix { $0.allSatisfy(isPlain) }
            guard together.count > 1 else {
                outcomes.append(await add(first, on: session))
                rest = rest.dropFirst()
                continue
            }
            rest = rest.dropFirst(together.count)
            switch await add(Array(together.joined()), on: session) {
            case .success(let additions):
                var others = additions[...]
                for list in together {
                    outcomes.append(.success(Array(others.prefix(list.count))))
                    others = others.dropFirst(list.count)
                }
            case .failure(let error) where error.code == .unavailable || error.code == .closed:
                outcomes += together.map { _ in .failure(error) }
            case .failure:
                for list in together { outcomes.append(await add(list, on: session)) }
            }
        }
        return outcomes
    }

    private static func add(_ jobs: [Job], on session: PostgresSession) async -> AdditionGroup.Outcome {
        var work = PostgresWork { transaction in
            var adding = Adding(PostgresRules(transaction))
            for run in Adding.runs(jobs) { try adding.add(run) }
            adding.rules.notify()
            return adding.additions
        }
        if jobs.allSatisfy(isPlain), Adding.runs(jobs).count == 1 {
            work.whole = { number, given in try WholeAddition(jobs, number, given).work }
        }
        do { return .success(try await session.perform(work)) } catch { return .failure(error) }
    }

    private static func isPlain(_ job: Job) -> Bool {
        job.dependencies.isEmpty && job.uniqueness.map { $0.policy == .append } ?? true
    }
}

/// Adds jobs with statements that are all known in advance, because no row must be read first.
private struct WholeAddition {
    private let jobs: [Job]
    private let number: String
    private let given: PostgresTime?

    init(_ jobs: [Job], _ number: String, _ given: PostgresTime?) {
        (self.jobs, self.number, self.given) = (jobs, number, given)
    }

    var work: PostgresWork<[JobAddition]>.Whole {
        get throws {
            let names = PostgresRules.lock(groups: jobs.map(\.group), keys: jobs.map { $0.uniqueness?.key })
            let before = names.map { [$0] } ?? []
            let holds = names == nil ? [] : [PostgresRules.holding(number)]
            let (jobs, index) = (jobs, before.count)
            return PostgresWork.Whole(
                statements: before + [try insertion] + holds + [PostgresRules.notification],
                read: { rows, _ in try Self.additions(of: jobs, rows[index]) },
                recover: { transaction, number in
                    let rows = try transaction.run(
                        """
                        SELECT id FROM convoy_jobs WHERE position = ANY(
                            (SELECT positions FROM convoy_commits WHERE number = $1)::int8[])
                        """, [.text(number)])
                    return try Self.additions(of: jobs, rows)
                })
        }
    }

    /// - Parameter rows: the ids of the jobs that the server has added.
    private static func additions(of jobs: [Job], _ rows: PostgresRows) throws -> [JobAddition] {
        var added = Set(try (0..<rows.count).compactMap { try rows.text($0, 0) })
        return jobs.map { JobAddition(id: $0.id, outcome: added.remove($0.id) == nil ? .alreadyThere : .added) }
    }

    private var insertion: PostgresStatement {
        get throws {
            var ids: Set<String> = []
            let jobs = jobs.filter { ids.insert($0.id).inserted }
            // The condition is a subquery instead of a join, because the planner would run the join once for each row.
            let isNew = "(position IN (SELECT position FROM new)) IS TRUE"
            return PostgresStatement(
                """
                WITH given AS MATERIALIZED (
                    SELECT nextval('convoy_positions') AS position, g.* FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
                        $12, $13, $14, $15, $16, $17, $18, $19, $20) AS g(id, kind, priority, not_before, expires, group_name,
                        unique_key, has_body, host, method, url, header_fields, body_file, destination, date, policy, tags,
                        idempotency_key, follows_as_get, body)),
                clock AS MATERIALIZED (
                    SELECT coalesce($21, (extract(epoch FROM now()) - 978307200)::float8) AS date),
                new AS (
                    INSERT INTO convoy_jobs (position, id, kind, priority, not_before, expires, group_name, unique_key,
                        has_body, host, state, added)
                    SELECT position, id, kind, priority, CASE WHEN not_before > clock.date THEN not_before END, expires,
                        group_name, unique_key, has_body, host, 0, clock.date
                    FROM given, clock ORDER BY position ON CONFLICT (id) DO NOTHING RETURNING id, position),
                contents AS (
                    INSERT INTO convoy_contents (position, method, url, header_fields, body_file, destination, not_before,
                        policy, tags, idempotency_key, follows_as_get)
                    SELECT position, method, url, header_fields, body_file, destination, date, policy,
                        coalesce(string_to_array(tags, E'\\n'), '{}'), idempotency_key, follows_as_get
                    FROM given WHERE \(isNew)),
                bodies AS (
                    INSERT INTO convoy_bodies (position, body)
                    SELECT position, body FROM given WHERE body IS NOT NULL AND \(isNew)),
                noted AS (
                    UPDATE convoy_commits SET positions = (SELECT array_agg(position) FROM new) WHERE number = $22)
                SELECT id FROM new
                """,
                PostgresJobs.columns(jobs) + (try PostgresJobs.contents(jobs)) + [
                    .blobs(jobs.map(\.request.body?.data)), .double(given?.date), .text(number),
                ])
        }
    }
}
