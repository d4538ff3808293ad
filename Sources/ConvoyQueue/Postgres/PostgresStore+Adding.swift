// Adding lists of jobs.
import Convoy

extension PostgresStore {
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
}

/// Adds the jobs of one call of `add` with statements that depend on rows of earlier statements.
struct Adding {
    /// The maximum number of jobs that one statement inserts.
    private static let maxRunCount = 2_000

    var rules: PostgresRules
    var additions: [JobAddition] = []
    /// The ids of the jobs that this call of `add` has added.
    private var added: Set<String> = []

    init(_ rules: PostgresRules) { self.rules = rules }

    /// Divides the jobs into runs, each of which one statement can insert.
    ///
    /// A job with the policy `keep` or `replace` is a separate run, because its outcome depends on the jobs before it.
    static func runs(_ jobs: [Job]) -> [[Job]] {
        var runs: [[Job]] = []
        var isOpen = false
        var byteCount = 0
        for job in jobs {
            let bytes = job.request.body?.data?.count ?? 0
            let isAlone = job.uniqueness.map { $0.policy != .append } ?? false
            if isOpen, !isAlone, let last = runs.indices.last, runs[last].count < maxRunCount,
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

    mutating func add(_ run: [Job]) throws {
        let new = try withoutThose(thatAreThere: run)
        try checkDependencies(of: new)
        if let only = new.first, new.count == 1, let uniqueness = only.uniqueness, uniqueness.policy != .append {
            if let kept = try settle(uniqueness) {
                additions.append(JobAddition(id: kept, outcome: .kept))
                return
            }
        }
        rules.lock(groups: new.map(\.group), keys: new.map { $0.uniqueness?.key })
        let inserted = try insert(new)
        try relate(new.filter { inserted[$0.id] != nil }, inserted)
        for job in run {
            let isAdded = inserted[job.id] != nil && added.insert(job.id).inserted
            additions.append(JobAddition(id: job.id, outcome: isAdded ? .added : .alreadyThere))
        }
    }

    /// Removes jobs whose ids exist in the store.
    ///
    /// A second job with the same id in the run counts as existing. Without dependencies and keys, the insertion itself
    /// skips existing ids.
    private func withoutThose(thatAreThere run: [Job]) throws -> [Job] {
        var ids: Set<String> = []
        let run = run.filter { ids.insert($0.id).inserted }
        guard run.contains(where: { !$0.dependencies.isEmpty || $0.uniqueness != nil }) else { return run }
        let rows = try rules.transaction.run(
            "SELECT id FROM convoy_jobs WHERE id = ANY($1)", [.texts(run.map(\.id))])
        let there = Set(try (0..<rows.count).compactMap { try rows.text($0, 0) })
        return run.filter { !there.contains($0.id) }
    }

    /// Checks that every dependency exists or is earlier in the call.
    ///
    /// Each dependency is locked, so that it cannot end unnoticed during this transaction.
    ///
    /// The lock is not `FOR SHARE`, because two transactions with the same dependency would then deadlock when they
    /// mark it as needed.
    private func checkDependencies(of jobs: [Job]) throws {
        var known = added
        var needed: [(job: String, dependency: String)] = []
        for job in jobs {
            needed += job.dependencies.filter { !known.contains($0) }.map { (job.id, $0) }
            known.insert(job.id)
        }
        guard !needed.isEmpty else { return }
        let rows = try rules.transaction.run(
            "SELECT id FROM convoy_jobs WHERE id = ANY($1) ORDER BY position FOR NO KEY UPDATE",
            [.texts(Array(Set(needed.map(\.dependency))))])
        let there = Set(try (0..<rows.count).compactMap { try rows.text($0, 0) })
        for (job, dependency) in needed where !there.contains(dependency) {
            throw QueueError(.unknownJob, "\(job.shownID) depends on \(dependency.shownID), which does not exist")
        }
    }

    /// Cancels the unfinished jobs that a new job replaces, or finds the existing job to keep instead.
    ///
    /// Returns the id of the job to keep; nil if the new job must be added.
    private mutating func settle(_ uniqueness: Job.Uniqueness) throws -> String? {
        rules.lock(groups: [], keys: [uniqueness.key])
        let rows = try rules.transaction.run(
            "SELECT id FROM convoy_jobs WHERE unique_key = $1 AND state < 4 ORDER BY position", [.text(uniqueness.key)])
        let others = try (0..<rows.count).compactMap { try rows.text($0, 0) }
        if uniqueness.policy == .keep { return others.first }
        _ = try rules.cancel(others)
        return nil
    }

    /// Inserts jobs.
    ///
    /// Returns the positions of the inserted jobs by id.
    private mutating func insert(_ jobs: [Job]) throws -> [String: Int64] {
        guard !jobs.isEmpty else { return [:] }
        let transaction = rules.transaction
        let rows = try transaction.run(
            """
            INSERT INTO convoy_jobs (id, kind, priority, not_before, expires, group_name, unique_key, has_body, host, state,
                added)
            SELECT id, kind, priority, CASE WHEN not_before > $10 THEN not_before END, expires, group_name, unique_key,
                has_body, host, 0, $10
            FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY
                AS g(id, kind, priority, not_before, expires, group_name, unique_key, has_body, host, number)
            ORDER BY number ON CONFLICT (id) DO NOTHING RETURNING id, position
            """, PostgresJobs.columns(jobs) + [.double(transaction.time.date)])
        var positions: [String: Int64] = [:]
        for row in 0..<rows.count { positions[try rows.text(row, 0) ?? ""] = try rows.int(row, 1) }
        let new = jobs.filter { positions[$0.id] != nil }
        guard !new.isEmpty else { return [:] }
        rules.noteWork()
        try transaction.run(
            """
            INSERT INTO convoy_contents (position, method, url, header_fields, body_file, destination, not_before, policy,
                tags, idempotency_key, follows_as_get)
            SELECT position, method, url, header_fields, body_file, destination, not_before, policy,
                coalesce(string_to_array(tags, E'\\n'), '{}'), idempotency_key, follows_as_get
            FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS g(position, method, url, header_fields, body_file,
                destination, not_before, policy, tags, idempotency_key, follows_as_get)
            """, [.ints(new.map { positions[$0.id] })] + (try PostgresJobs.contents(new)))
        let bodies = new.filter { $0.request.body?.data != nil }
        guard !bodies.isEmpty else { return positions }
        try transaction.run(
            "INSERT INTO convoy_bodies (position, body) SELECT * FROM unnest($1, $2)",
            [.ints(bodies.map { positions[$0.id] }), .blobs(bodies.map(\.request.body?.data))])
        return positions
    }

    /// Stores the dependencies of jobs, computes what blocks the jobs, and cancels those with a cancelled dependency.
    private mutating func relate(_ jobs: [Job], _ positions: [String: Int64]) throws {
        let related = jobs.filter { !$0.dependencies.isEmpty || $0.group != nil || $0.uniqueness != nil }
        guard !related.isEmpty else { return }
        let needs = related.flatMap { job in
            job.dependencies.enumerated().map { (position: positions[job.id], number: $0.offset, needed: $0.element) }
        }
        let transaction = rules.transaction
        if !needs.isEmpty {
            try transaction.run(
                "INSERT INTO convoy_needs (position, number, needed) SELECT * FROM unnest($1, $2, $3)",
                [.ints(needs.map(\.position)), .ints(needs.map { Int64($0.number) }), .texts(needs.map(\.needed))])
            try transaction.run(
                "UPDATE convoy_jobs SET is_needed = true WHERE id = ANY($1) AND NOT is_needed",
                [.texts(Array(Set(needs.map(\.needed))))])
        }
        let new = related.compactMap { positions[$0.id] }
        try rules.hold(new, groups: [], keys: [])
        guard !needs.isEmpty else { return }
        let rows = try transaction.run(
            """
            SELECT DISTINCT j.id FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
            JOIN convoy_jobs AS j ON j.position = n.position WHERE n.position = ANY($1) AND o.state = 6
            """, [.ints(new)])
        _ = try rules.cancel((0..<rows.count).compactMap { try rows.text($0, 0) })
    }
}
