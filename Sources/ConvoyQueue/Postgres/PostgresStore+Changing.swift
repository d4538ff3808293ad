// Changes that a caller requests: cancel, retry, acknowledge, delete, purge.
import Convoy

extension PostgresStore {
    /// Cancels unfinished and dead jobs, and the jobs that depend on them.
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.transaction { transaction in
            var rules = PostgresRules(transaction)
            let count = try rules.cancel(
                rules.select(selection, in: [.waiting, .blocked, .claimed, .answered, .dead]).ids)
            // A notification also wakes callers of `drain`.
            if count > 0 { rules.noteWork() }
            rules.notify()
            return count
        }
    }

    /// Sends dead letters again.
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.transaction { transaction in
            var rules = PostgresRules(transaction)
            let count = try rules.retry(rules.select(selection, in: [.dead]).ids)
            rules.notify()
            return count
        }
    }

    /// Acknowledges results that wait for a handler.
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.transaction { transaction in
            var rules = PostgresRules(transaction)
            let positions = try rules.select(selection, in: [.answered]).positions
            let rows = try transaction.run(
                """
                UPDATE convoy_jobs AS j SET state = 4, has_result = false, finished = $2
                WHERE position = ANY($1) AND state = 3 RETURNING \(PostgresRules.endedColumns)
                """, [.ints(positions), .int(transaction.time.now)])
            try rules.drop(positions, from: "convoy_results")
            try rules.follow(PostgresRules.ended(rows))
            // Other queues may have stopped claiming because too many results waited.
            if rows.count > 0 { rules.noteWork() }
            rules.notify()
            return rows.count
        }
    }

    /// Deletes finished jobs, including dead letters.
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await callers.transaction { transaction in
            var rules = PostgresRules(transaction)
            let meant = try rules.select(selection, in: [.done, .dead, .cancelled])
            let dead = try transaction.run(
                "SELECT id FROM convoy_jobs WHERE position = ANY($1) AND state = 5", [.ints(meant.positions)])
            _ = try rules.cancel((0..<dead.count).compactMap { try dead.text($0, 0) })
            try rules.drop(meant.positions)
            rules.notify()
            return meant.positions.count
        }
    }

    /// Deletes up to 5,000 jobs that were done or cancelled at least this long ago, but no dead letters.
    public func purge(olderThan age: Duration) async throws(QueueError) -> Int {
        try await callers.transaction { transaction in
            let rows = try transaction.run(
                """
                SELECT position FROM convoy_jobs WHERE state IN (4, 6) AND finished <= $1
                ORDER BY finished LIMIT 5000 FOR UPDATE SKIP LOCKED
                """, [.int(transaction.time.now - PostgresRules.microseconds(age))])
            let positions = try (0..<rows.count).compactMap { try rows.int($0, 0) }
            try PostgresRules(transaction).drop(positions)
            return positions.count
        }
    }
}

extension PostgresRules {
    /// The jobs of a selection that are in given states, in the order of their positions.
    ///
    /// The jobs are locked until the transaction ends.
    fileprivate func select(
        _ selection: JobSelection, in states: Set<JobState>
    ) throws -> (ids: [String], positions: [Int64]) {
        var selection = selection
        selection.states = selection.states?.intersection(states) ?? states
        let (condition, parameters) = PostgresSelection.condition(selection, parametersBefore: 0)
        let rows = try transaction.run(
            "SELECT j.id, j.position FROM convoy_jobs AS j WHERE \(condition) ORDER BY j.position FOR UPDATE OF j",
            parameters)
        return (
            try (0..<rows.count).compactMap { try rows.text($0, 0) },
            try (0..<rows.count).compactMap { try rows.int($0, 1) }
        )
    }

    /// Deletes finished jobs with all their rows, and the rows of `convoy_needs` that name these jobs as dependencies.
    ///
    /// A new job may get the id of a deleted one, and must not count as a dependency of older jobs.
    fileprivate func drop(_ positions: [Int64]) throws {
        guard !positions.isEmpty else { return }
        try transaction.run(
            """
            DELETE FROM convoy_needs AS n USING convoy_jobs AS j WHERE j.position = ANY($1) AND n.needed = j.id
            """, [.ints(positions)])
        for table in ["convoy_jobs"] + PostgresSchema.partTables { try drop(positions, from: table) }
    }

    /// Makes dead letters wait again, and moves them and their blocked dependents to the end of the queue in order.
    fileprivate mutating func retry(_ ids: [String]) throws -> Int {
        guard !ids.isEmpty else { return 0 }
        let meant = try transaction.run(
            """
            WITH RECURSIVE meant(id) AS (
                SELECT unnest($1) COLLATE "C" UNION SELECT j.id FROM meant AS m JOIN convoy_needs AS n ON n.needed = m.id
                JOIN convoy_jobs AS j ON j.position = n.position WHERE j.state = 1)
            SELECT position, group_name, unique_key FROM convoy_jobs WHERE id IN (SELECT id FROM meant)
            ORDER BY position FOR UPDATE
            """, [.texts(ids)])
        let positions = try (0..<meant.count).compactMap { try meant.int($0, 0) }
        let groups = Set(try (0..<meant.count).compactMap { try meant.text($0, 1) })
        let keys = Set(try (0..<meant.count).compactMap { try meant.text($0, 2) })
        lock(groups: Array(groups), keys: Array(keys))
        try transaction.run(
            """
            UPDATE convoy_jobs SET state = 0, failure = NULL, attempt_count = 0, lapses = 0, due = NULL, finished = NULL,
                expires = CASE WHEN expires > $2 THEN expires END
            WHERE id = ANY($1) AND state = 5
            """, [.texts(ids), .double(transaction.time.date)])
        let moved = try move(positions)
        try hold(moved, groups: Array(groups), keys: Array(keys))
        noteWork()
        return ids.count
    }

    /// Moves jobs to the end of the queue in the same order, and returns their new positions.
    private func move(_ positions: [Int64]) throws -> [Int64] {
        let rows = try transaction.run(
            "SELECT nextval('convoy_positions') FROM generate_series(1, $1)", [.int(positions.count)])
        let new = try (0..<rows.count).compactMap { try rows.int($0, 0) }.sorted()
        for table in ["convoy_jobs"] + PostgresSchema.partTables {
            try transaction.run(
                """
                UPDATE \(table) AS t SET position = m.new FROM unnest($1, $2) AS m(old, new) WHERE t.position = m.old
                """, [.ints(positions), .ints(new)])
        }
        return new
    }
}

/// A selection as an SQL condition.
///
/// The condition contains only the criteria that are set, so that the server can use an index.
enum PostgresSelection {
    static func condition(
        _ selection: JobSelection, parametersBefore: Int
    ) -> (condition: String, parameters: [PostgresValue]) {
        var conditions: [String] = []
        var parameters: [PostgresValue] = []
        func add(_ condition: (String) -> String, _ value: PostgresValue) {
            parameters.append(value)
            conditions.append(condition("$\(parametersBefore + parameters.count)"))
        }
        if let ids = selection.ids { add({ "j.id = ANY(\($0))" }, .texts(ids.sorted())) }
        if let states = selection.states {
            let numbers = PostgresSchema.states.indices.filter { states.contains(PostgresSchema.states[$0]) }
            add({ "j.state = ANY(\($0))" }, .ints(numbers.map { Int64($0) }))
        }
        if let kind = selection.kind { add({ "j.kind = \($0)" }, .text(kind)) }
        if let group = selection.group { add({ "j.group_name = \($0)" }, .text(group)) }
        if let tag = selection.tag {
            let tagged = "EXISTS (SELECT 1 FROM convoy_contents AS t WHERE t.position = j.position AND "
            add({ "\(tagged)\($0) = ANY(t.tags))" }, .text(tag))
        }
        return (conditions.isEmpty ? "true" : conditions.joined(separator: " AND "), parameters)
    }
}
