// Which jobs are claimed, and in which order.
import Convoy
import Foundation

extension SQLiteWorker {
    /// The maximum number of jobs that one statement makes ready, or ends because they have expired.
    ///
    /// The next exchange, which is due at once, handles the remaining jobs.
    private static let portion: Int64 = 1_000

    /// Makes jobs ready whose date or delay has passed.
    func makeDue() throws(QueueError) {
        for (clock, now) in [(Int64(0), time.now), (1, time.date)] {
            let isDue = try connection().number(
                "SELECT 1 FROM job WHERE state = 1 AND due_clock = ? AND due <= ? LIMIT 1", .integer(clock),
                .integer(now))
            guard isDue != nil else { continue }
            try connection().run(
                """
                UPDATE job SET state = 0, due = NULL, due_clock = 0 WHERE position IN
                    (SELECT position FROM job WHERE state = 1 AND due_clock = ? AND due <= ? ORDER BY due LIMIT ?)
                """, .integer(clock), .integer(now), .integer(Self.portion))
        }
    }

    /// Ends expired jobs as dead letters.
    ///
    /// Expired jobs of the given kinds wait for their handler instead.
    func expire(telling kinds: ClaimRequest.Kinds) throws(QueueError) {
        let hasExpired = "expires IS NOT NULL AND state <= 2 AND expires <= ?"
        if kinds != .only([]) {
            let (condition, values) = Self.condition(kinds)
            let positions = try connection().rows(
                "SELECT position FROM job WHERE \(hasExpired)\(condition) ORDER BY expires LIMIT ?",
                [.integer(time.date)] + values + [.integer(Self.portion)]
            ) { row throws(QueueError) in row.integer(0) ?? 0 }
            for position in positions {
                let result = try keep(JobResult(failure: JobRecord.expired))
                try connection().run(
                    "UPDATE job SET state = 4, due = NULL, result = ? WHERE position = ?", .integer(result),
                    .integer(position))
            }
        }
        let (condition, values) = Self.condition(kinds.others)
        if kinds != .all { try end(hasExpired + condition, [.integer(time.date)] + values, JobRecord.expired) }
    }

    func claim(_ request: ClaimRequest) throws(QueueError) -> [ClaimedJob] {
        guard request.limit > 0 else { return [] }
        var jobs = try claimSuspect(request)
        if jobs.count < request.limit {
            jobs += try claimReady(request, request.limit - jobs.count)
        }
        if jobs.count < request.limit {
            jobs += try claim(
                "state = 4 AND lapses < 2", "position", request.answeredKinds, request.limit - jobs.count)
        }
        return jobs
    }

    /// Claims jobs to send, limited for each host.
    private func claimReady(_ request: ClaimRequest, _ limit: Int) throws(QueueError) -> [ClaimedJob] {
        let ready = "state = 0 AND lapses < 2"
        guard request.maxPerHost != nil else { return try claim(ready, Self.order, request.kinds, limit) }
        let (condition, values) = Self.condition(request.kinds)
        // Usually all of the first jobs may be claimed. If they would exceed the limit of a host, this search ends, and
        // `fillRooms` searches host by host.
        var (first, counts, isFull): ([Int64], [String: Int], Bool) = ([], [:], false)
        try connection().forEachRow(
            "SELECT position, host FROM job WHERE \(ready)\(condition) ORDER BY \(Self.order) LIMIT ?",
            values + [.integer(Int64(limit))]
        ) { row throws(QueueError) in
            let host = row.text(1) ?? ""
            counts[host, default: 0] += 1
            isFull = counts[host, default: 0] > request.room(of: host)
            if !isFull { first.append(row.integer(0) ?? 0) }
            return !isFull
        }
        if isFull { first = try fillRooms(request, limit, ready) }
        var rows: [JobRow] = []
        for (marks, values) in Self.portions(of: first) {
            rows += try connection().rows(
                "SELECT \(JobRow.columns) FROM job WHERE position IN (\(marks)) ORDER BY \(Self.order)", values
            ) { row throws(QueueError) in JobRow(row) }
        }
        let jobs = try take(rows)
        // Claims other jobs instead of unreadable ones. A result below the limit would mean that no more jobs are
        // ready.
        return jobs.count == rows.count ? jobs : jobs + (try claimReady(request.rest(after: jobs), limit - jobs.count))
    }

    /// The positions of the ready jobs to claim, in the order of sending.
    ///
    /// There are at most `limit` positions, and of each host no more than the request allows.
    private func fillRooms(
        _ request: ClaimRequest, _ limit: Int, _ ready: String
    ) throws(QueueError) -> [Int64] {
        let (condition, values) = Self.condition(request.kinds)
        var candidates: [Candidate] = []
        var host = try connection().row("SELECT min(host) FROM job WHERE state = 0") { row throws(QueueError) in
            row.text(0)
        }
        while let known = host ?? nil {
            candidates += try connection().rows(
                """
                SELECT position, priority, attempt_count > 0 FROM job INDEXED BY job_host
                WHERE \(ready) AND host = ?\(condition) ORDER BY \(Self.order) LIMIT ?
                """, [.text(known)] + values + [.integer(Int64(min(limit, request.room(of: known))))]
            ) { row throws(QueueError) in
                Candidate(
                    position: row.integer(0) ?? 0, priority: row.integer(1) ?? 0, isTried: row.integer(2) == 1)
            }
            host = try connection().row("SELECT min(host) FROM job WHERE state = 0 AND host > ?", .text(known)) {
                row throws(QueueError) in row.text(0)
            }
        }
        return candidates.sorted().prefix(limit).map(\.position)
    }

    /// A ready job of a host whose limit is not reached, compared in the order of sending.
    private struct Candidate: Comparable {
        let position: Int64
        let priority: Int64
        let isTried: Bool

        static func < (left: Candidate, right: Candidate) -> Bool {
            if left.priority != right.priority { return left.priority > right.priority }
            return left.isTried == right.isTried ? left.position < right.position : right.isTried
        }
    }

    /// The order in which jobs are sent.
    private static let order = "priority DESC, attempt_count > 0, position"

    /// Claims a suspect, a job with at least two lapsed claims, unless this owner has already claimed one.
    private func claimSuspect(_ request: ClaimRequest) throws(QueueError) -> [ClaimedJob] {
        // The query uses the index of suspects, which is usually empty.
        let (owns, mayClaim) = try connection().rows(
            "SELECT state, owner FROM job INDEXED BY job_suspect WHERE lapses >= 2 AND state IN (0, 3, 4)"
        ) { row throws(QueueError) in (row.integer(0) == 3 && row.text(1) == owners.name, row.integer(0) != 3) }
        .reduce((false, false)) { ($0.0 || $1.0, $0.1 || $1.1) }
        guard mayClaim, !owns else { return [] }
        let jobs = try claim("state = 0 AND lapses >= 2", Self.order, request.kinds, 1)
        return jobs.isEmpty ? try claim("state = 4 AND lapses >= 2", "position", request.answeredKinds, 1) : jobs
    }

    private func claim(
        _ state: String, _ order: String, _ kinds: ClaimRequest.Kinds, _ limit: Int
    ) throws(QueueError) -> [ClaimedJob] {
        if kinds == .only([]) { return [] }
        let (condition, values) = Self.condition(kinds)
        let rows = try connection().rows(
            "SELECT \(JobRow.columns) FROM job WHERE \(state)\(condition) ORDER BY \(order) LIMIT ?",
            values + [.integer(Int64(limit))]
        ) { row throws(QueueError) in JobRow(row) }
        let jobs = try take(rows)
        // Claims other jobs instead of unreadable ones, as in `claimReady`.
        return jobs.count == rows.count ? jobs : jobs + (try claim(state, order, kinds, rows.count - jobs.count))
    }

    /// Assigns the readable jobs to this owner, and makes unreadable jobs dead letters.
    private func take(_ rows: [JobRow]) throws(QueueError) -> [ClaimedJob] {
        for row in rows where row.defect != nil { try bury(row) }
        let readable = rows.filter { $0.defect == nil }
        for (marks, values) in Self.portions(of: readable.map(\.position)) {
            try connection().run(
                "UPDATE job SET state = 3, owner = ?, claims = claims + 1, due = NULL WHERE position IN (\(marks))",
                [.text(owners.name)] + values)
        }
        var jobs: [ClaimedJob] = []
        jobs.reserveCapacity(readable.count)
        for row in readable {
            var job = row.job
            job.request.body = try body(of: row)
            jobs.append(
                ClaimedJob(
                    claim: Claim(id: job.id, token: row.claimCount + 1), job: job, attemptCount: row.attemptCount,
                    lapseCount: row.life.lapseCount,
                    result: try row.result.flatMap { number throws(QueueError) in try result(number) }))
        }
        return jobs
    }

    /// Makes an unreadable job a dead letter.
    private func bury(_ row: JobRow) throws(QueueError) {
        try end("position = ?", [.integer(row.position)], row.defect)
    }

    /// Makes the jobs that meet a condition dead letters, at most ``portion`` of them.
    ///
    /// The condition must exclude claimed jobs.
    private func end(_ condition: String, _ values: [SQLiteValue], _ failure: String?) throws(QueueError) {
        let rows = try connection().rows(
            "SELECT \(LifeRow.columns) FROM job WHERE \(condition) ORDER BY expires LIMIT ?",
            values + [.integer(Self.portion)]
        ) { row throws(QueueError) in LifeRow(row) }
        for row in rows {
            try connection().run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
            try connection().run(
                "UPDATE job SET state = 6, failure = ?, result = NULL, finished = ? WHERE position = ?",
                SQLiteValue(failure), .integer(time.now), .integer(row.position))
            try finished(row, .dead)
        }
    }

    /// Positions in portions, as parameters of statements.
    ///
    /// Portions have only a few sizes and are padded with NULLs, because the connection caches a statement for each
    /// size. SQLite before 3.32 accepts at most 999 parameters.
    private static func portions(of positions: [Int64]) -> [(marks: String, values: [SQLiteValue])] {
        var (portions, rest): ([(marks: String, values: [SQLiteValue])], ArraySlice<Int64>) = ([], positions[...])
        while let size = rest.isEmpty ? nil : [1, 8, 64, 128].first(where: { $0 >= rest.count }) ?? 512 {
            let some = rest.prefix(size)
            rest = rest.dropFirst(size)
            let padding = [SQLiteValue](repeating: .null, count: size - some.count)
            portions.append((marks(size), some.map(SQLiteValue.integer) + padding))
        }
        return portions
    }

    private static func condition(_ kinds: ClaimRequest.Kinds) -> (String, [SQLiteValue]) {
        switch kinds {
        case .all: ("", [])
        case .only(let kinds): (" AND kind IN (\(marks(kinds.count)))", kinds.sorted().map(SQLiteValue.text))
        case .except(let kinds): (" AND kind NOT IN (\(marks(kinds.count)))", kinds.sorted().map(SQLiteValue.text))
        }
    }

    private static func marks(_ count: Int) -> String {
        Array(repeating: "?", count: count).joined(separator: ", ")
    }

    /// The time until a job's date, delay or expiry has passed or another owner's lease ends; nil if there is none.
    func next() throws(QueueError) -> Duration? {
        let connection = try connection()
        let (now, date) = (time.now, time.date)
        var waits: [Int64] = []
        if let due = try connection.number("SELECT min(due) FROM job WHERE state = 1 AND due_clock = 0") {
            waits.append(due - now)
        }
        if let due = try connection.number("SELECT min(due) FROM job WHERE state = 1 AND due_clock = 1") {
            waits.append(due - date)
        }
        let expiry = try connection.number(
            "SELECT min(expires) FROM job WHERE expires IS NOT NULL AND state <= 2")
        if let expiry { waits.append(expiry - date) }
        let end = try connection.number(
            """
            SELECT min(ends) FROM owner WHERE name <> ?
                AND EXISTS(SELECT 1 FROM job WHERE state = 3 AND job.owner = owner.name)
            """, .text(owners.name))
        if let end { waits.append(end - now) }
        return waits.min().map { .milliseconds(max(0, $0)) }
    }
}
