// Changes that a caller requests: cancel, retry, acknowledge, delete, purge. Also the effects on dependents and groups.
import Convoy
import Foundation

extension SQLiteWorker {
    /// Calls a function for each job of a selection, and returns the sum of its results.
    ///
    /// The rows are read in portions of 1,000, so that a million rows need little memory.
    private func forEach(
        _ selection: JobSelection, and more: String, _ body: (LifeRow) throws(QueueError) -> Int
    ) throws(QueueError) -> Int {
        let (condition, values) = try condition(of: selection)
        // The loop visits only positions that exist now, so that it would end even if `body` added rows.
        let last = try connection().number("SELECT max(position) FROM job") ?? 0
        var (position, count) = (Int64(0), 0)
        while true {
            let rows = try connection().rows(
                """
                SELECT \(LifeRow.columns) FROM job WHERE position > ? AND position <= ? AND \(more)\(condition)
                ORDER BY position LIMIT 1000
                """, [.integer(position), .integer(last)] + values
            ) { row throws(QueueError) in LifeRow(row) }
            guard let end = rows.last else { return count }
            position = end.position
            for row in rows { count += try body(row) }
        }
    }

    func cancel(_ selection: JobSelection) throws(QueueError) -> Int {
        try transaction { () throws(QueueError) in
            let count = try forEach(selection, and: "state IN (0, 1, 2, 3, 4, 6)") { row throws(QueueError) in
                try cancel(row.id)
            }
            // A notification also wakes callers of `drain`.
            if count > 0 { mustRing = true }
            return count
        }
    }

    func acknowledge(_ selection: JobSelection) throws(QueueError) -> Int {
        try transaction { () throws(QueueError) in
            try forEach(selection, and: "state = 4") { row throws(QueueError) in
                try connection().run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
                try connection().run(
                    "UPDATE job SET state = 5, result = NULL, finished = ?, body = NULL WHERE position = ?",
                    .integer(time.now), .integer(row.position))
                try finished(row, .done)
                // Queues that had too many waiting results may claim jobs again.
                mustRing = true
                return 1
            }
        }
    }

    func delete(_ selection: JobSelection) throws(QueueError) -> Int {
        try transaction { () throws(QueueError) in
            var dependents: [String] = []
            let count = try forEach(selection, and: "state IN (5, 6, 7)") { row throws(QueueError) in
                if row.life.state == .dead {
                    dependents += try self.dependents(of: row.id)
                    try finished(row, .cancelled)
                }
                return try connection().run("DELETE FROM job WHERE id = ?", .text(row.id))
            }
            // Dependents are cancelled after the loop, which would otherwise delete them as cancelled jobs.
            for dependent in dependents { _ = try cancel(dependent) }
            return count
        }
    }

    func purge(_ age: Duration) throws(QueueError) -> Int {
        try transaction { () throws(QueueError) in
            try connection().run(
                """
                DELETE FROM job WHERE position IN
                    (SELECT position FROM job WHERE (state = 5 OR state = 7) AND finished <= ? LIMIT 5000)
                """, .integer(time.now - Int64(clamping: age)))
        }
    }

    func retry(_ selection: JobSelection) throws(QueueError) -> Int {
        try transaction { () throws(QueueError) in
            // The blocked dependents of a dead letter move to the end with it, so that they stay behind it in their
            // group.
            var moved: [String: Int64] = [:]
            let count = try forEach(selection, and: "state = 6") { row throws(QueueError) in
                var (ids, index) = ([row.id], 0)
                moved[row.id] = row.position
                while index < ids.count {
                    let dependents = try connection().rows(
                        """
                        SELECT job.id, job.position FROM dependency JOIN job ON job.id = dependency.job
                        WHERE dependency.needs = ? AND job.state = 2
                        """, [.text(ids[index])]
                    ) { row throws(QueueError) in (id: row.text(0) ?? "", position: row.integer(1) ?? 0) }
                    for dependent in dependents where moved[dependent.id] == nil {
                        moved[dependent.id] = dependent.position
                        ids.append(dependent.id)
                    }
                    index += 1
                }
                return try connection().run(
                    """
                    UPDATE job SET state = 2, failure = NULL, attempt_count = 0, lapses = 0, finished = NULL,
                        due = CASE WHEN not_before > ? THEN not_before END, due_clock = ifnull(not_before > ?, 0),
                        expires = CASE WHEN expires <= ? THEN NULL ELSE expires END WHERE position = ?
                    """, .integer(time.date), .integer(time.date), .integer(time.date), .integer(row.position))
            }
            for (id, _) in moved.sorted(by: { $0.value < $1.value }) { try moveToEnd(id) }
            mustRing = count > 0
            return count
        }
    }

    /// Moves a job to the end of the order, and computes again whether its group or key blocks it.
    ///
    /// The job is blocked first, because the move of another job may have unblocked it as the first of its group.
    private func moveToEnd(_ id: String) throws(QueueError) {
        try connection().run(
            """
            UPDATE job SET state = 2, position = (SELECT max(position) + 1 FROM job),
                behind = (grp IS NOT NULL) + 2 * (key IS NOT NULL) WHERE id = ?
            """, .text(id))
        let row = try connection().row("SELECT \(LifeRow.columns) FROM job WHERE id = ?", .text(id)) {
            row throws(QueueError) in LifeRow(row)
        }
        guard let row else { return }
        try promote(row)
        try unblock(id)
    }

    // MARK: Cancelling, and effects on dependents

    /// Cancels a job and all jobs that depend on it.
    ///
    /// Returns the number of cancelled jobs.
    func cancel(_ id: String) throws(QueueError) -> Int {
        var (ids, index, count) = ([id], 0, 0)
        while index < ids.count {
            let row = try connection().row("SELECT \(LifeRow.columns) FROM job WHERE id = ?", .text(ids[index])) {
                row throws(QueueError) in LifeRow(row)
            }
            index += 1
            guard let row else { continue }
            var life = row.life
            guard life.handle(.cancelled) else { continue }
            ids += try dependents(of: row.id)
            try connection().run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
            try connection().run(
                """
                UPDATE job SET state = 7, owner = NULL, lapses = 0, result = NULL, failure = NULL, due = NULL, finished = ?,
                    body = NULL WHERE position = ?
                """, .integer(time.now), .integer(row.position))
            try finished(row, .cancelled)
            count += 1
        }
        return count
    }

    /// Applies the effects of a job's end on other jobs, and removes the job's body unless the job is a dead letter.
    func finished(_ row: LifeRow, _ state: JobState) throws(QueueError) {
        if state == .done, row.hasDependents { try releaseDependents(of: row.id) }
        if state == .cancelled {
            try connection().run("DELETE FROM dependency WHERE needs = ? OR job = ?", .text(row.id), .text(row.id))
        }
        if state != .dead, let body = row.body {
            if let file = row.bodyFile { removals.append(file) }
            try connection().run("DELETE FROM body WHERE number = ?", .integer(body))
        }
        try promote(row)
    }

    private func dependents(of id: String) throws(QueueError) -> [String] {
        try connection().rows("SELECT job FROM dependency WHERE needs = ?", [.text(id)]) { row throws(QueueError) in
            row.text(0) ?? ""
        }
    }

    private func releaseDependents(of id: String) throws(QueueError) {
        let dependents = try dependents(of: id)
        guard !dependents.isEmpty else { return }
        try connection().run("DELETE FROM dependency WHERE needs = ?", .text(id))
        for dependent in dependents {
            try connection().run("UPDATE job SET missing = missing - 1 WHERE id = ?", .text(dependent))
            try unblock(dependent)
        }
    }

    /// Unblocks the first unfinished job of the row's group, and that of the row's key.
    private func promote(_ row: LifeRow) throws(QueueError) {
        for (column, value, bit) in [("grp", row.group, Int64(1)), ("key", row.key, 2)] {
            guard let value else { continue }
            let first = try connection().row(
                "SELECT id, behind FROM job WHERE \(column) = ? AND state <= 4 ORDER BY position LIMIT 1", .text(value)
            ) { row throws(QueueError) in (id: row.text(0) ?? "", behind: row.integer(1) ?? 0) }
            guard let first, first.behind & bit != 0 else { continue }
            try connection().run("UPDATE job SET behind = behind & ~? WHERE id = ?", .integer(bit), .text(first.id))
            try unblock(first.id)
        }
    }

    private func unblock(_ id: String) throws(QueueError) {
        let count = try connection().run(
            """
            UPDATE job SET state = CASE WHEN due IS NULL THEN 0 ELSE 1 END
            WHERE id = ? AND state = 2 AND missing = 0 AND behind = 0
            """, .text(id))
        if count > 0 { mustRing = true }
    }
}
