// Reading from the store.
import Convoy
import Foundation

extension SQLiteWorker {
    func job(_ id: String) throws(QueueError) -> JobRecord? {
        let row = try connection().row("SELECT \(JobRow.columns) FROM job WHERE id = ?", .text(id)) {
            row throws(QueueError) in JobRow(row)
        }
        guard let row else { return nil }
        var record = record(row)
        record.job.request.body = try body(of: row)
        if let number = row.result { record.result = try result(number) }
        return record
    }

    func jobs(_ selection: JobSelection, _ position: Int64, _ limit: Int) throws(QueueError) -> [JobRecord] {
        let (condition, values) = try condition(of: selection)
        let rows = try connection().rows(
            "SELECT \(JobRow.columns) FROM job WHERE position > ?\(condition) ORDER BY position LIMIT ?",
            [.integer(position)] + values + [.integer(Int64(max(0, limit)))]
        ) { row throws(QueueError) in JobRow(row) }
        var records = rows.map(record)
        for (index, row) in rows.enumerated() {
            guard let number = row.result else { continue }
            records[index].result = try result(number, isWhole: false)
        }
        return records
    }

    private func record(_ row: JobRow) -> JobRecord {
        let delay = row.due.map { max(0, $0 - (row.isDueByCalendar ? time.date : time.now)) } ?? 0
        return JobRecord(
            job: row.job, position: row.position, life: row.life, added: row.added,
            attempts: JobText.attempts(of: row.attempts), attemptCount: row.attemptCount,
            delay: row.life.state == .waiting && delay > 0 ? .milliseconds(delay) : nil, failure: row.failure)
    }

    func body(of row: JobRow) throws(QueueError) -> JobRequest.Body? {
        guard let number = row.body else { return row.job.request.body }
        let body: JobRequest.Body? = try connection().row(
            "SELECT bytes, file FROM body WHERE number = ?", .integer(number)
        ) { row throws(QueueError) in
            row.text(1).map { .file(bodies.url(of: $0)) } ?? .data(row.blob(0) ?? Data())
        }
        // Without its row, the body becomes a file that does not exist. The job then fails with an error that names the
        // file.
        return body ?? .file(bodies.url(of: "body \(number)"))
    }

    func result(_ number: Int64, isWhole: Bool = true) throws(QueueError) -> JobResult? {
        let bytes = isWhole ? "bytes" : "NULL"
        return try connection().row(
            "SELECT status, fields, \(bytes), is_cut, failure FROM result WHERE number = ?", .integer(number)
        ) { row throws(QueueError) in
            JobResult(
                statusCode: row.integer(0).map(Int.init), headerFields: JobText.fields(of: row.text(1)),
                body: row.blob(2) ?? Data(), isBodyCut: row.integer(3) == 1, failure: row.text(4))
        }
    }

    func blockers(_ id: String) throws(QueueError) -> [JobBlocker] {
        let row = try connection().row("SELECT \(LifeRow.columns) FROM job WHERE id = ?", .text(id)) {
            row throws(QueueError) in LifeRow(row)
        }
        guard let row, row.life.state == .blocked else { return [] }
        var blockers = try connection().rows(
            """
            SELECT job.id, job.state FROM dependency JOIN job ON job.id = dependency.needs
            WHERE dependency.job = ? ORDER BY job.id LIMIT 98
            """, [.text(id)]
        ) { row throws(QueueError) in
            JobBlocker(id: row.text(0) ?? "", state: LifeRow.state(row.integer(1) ?? 0), reason: .dependency)
        }
        if row.life.holds.isBehindGroup, let group = row.group {
            blockers += try first("grp", group, .group)
        }
        if row.life.holds.isBehindKey, let key = row.key { blockers += try first("key", key, .key) }
        return blockers
    }

    private func first(
        _ column: String, _ value: String, _ reason: JobBlocker.Reason
    ) throws(QueueError) -> [JobBlocker] {
        try connection().rows(
            "SELECT id, state FROM job WHERE \(column) = ? AND state <= 4 ORDER BY position LIMIT 1", [.text(value)]
        ) { row throws(QueueError) in
            JobBlocker(id: row.text(0) ?? "", state: LifeRow.state(row.integer(1) ?? 0), reason: reason)
        }
    }

    func status() throws(QueueError) -> QueueStatus {
        // A caller that only polls must also learn that the database file was moved or removed.
        try connection().checkPlace()
        let rows = try connection().rows(
            """
            SELECT kind, state, count FROM tally WHERE count > 0
            UNION ALL SELECT kind, 3, count(*) FROM job WHERE state = 3 GROUP BY kind
            """
        ) { row throws(QueueError) in
            (kind: row.text(0) ?? "", state: LifeRow.state(row.integer(1) ?? 0), count: Int(row.integer(2) ?? 0))
        }
        var status = QueueStatus()
        for row in rows {
            status.counts[row.kind, default: [:]][row.state, default: 0] += row.count
            // The table `tally` counts claimed jobs as waiting, so they are subtracted here.
            if row.state == .claimed { status.counts[row.kind, default: [:]][.waiting, default: 0] -= row.count }
        }
        return QueueStatus(counts: status.counts.mapValues { $0.filter { $0.value != 0 } })
    }

    /// A selection as an SQL condition, to append to another condition.
    func condition(of selection: JobSelection) throws(QueueError) -> (String, [SQLiteValue]) {
        var (text, values) = ("", [SQLiteValue]())
        if let ids = selection.ids {
            try connection().execute("CREATE TEMP TABLE IF NOT EXISTS wanted(id TEXT PRIMARY KEY); DELETE FROM wanted")
            for id in ids { try connection().run("INSERT INTO wanted VALUES(?)", .text(id)) }
            text += " AND id IN (SELECT id FROM wanted)"
        }
        if let states = selection.states {
            var numbers = states.map { LifeRow.number(of: $0) }
            if states.contains(.waiting) { numbers.append(1) }
            text += " AND state IN (\(numbers.sorted().map(String.init).joined(separator: ", ")))"
        }
        for (column, value) in [("kind", selection.kind), ("grp", selection.group)] {
            guard let value else { continue }
            text += " AND \(column) = ?"
            values.append(.text(value))
        }
        if let tag = selection.tag {
            text += " AND instr(tags, ?) > 0"
            values.append(.text("\n\(tag)\n"))
        }
        return (text, values)
    }
}
