// Settling and claiming.
import Convoy
import Foundation

extension SQLiteWorker {
    /// How many jobs become due, or expire, in one transaction at most; the next one follows at once.
    private static let portion: Int64 = 1_000

    func exchange(_ settlements: [Settlement], _ request: ClaimRequest?) throws(QueueError) -> Exchange {
        try transaction { () throws(QueueError) in
            var isSettled: [Bool] = []
            for settlement in settlements { isSettled.append(try settle(settlement)) }
            if settlements.contains(where: { if case .retry = $0.verdict { true } else { false } }) {
                try time.note(in: connection())
            }
            guard let request else { return Exchange(isSettled: isSettled, jobs: [], next: nil) }
            try releaseEnded()
            try expire()
            try makeDue()
            var jobs = try claim(request)
            if jobs.count < request.limit || lastLook.map({ .now - $0 > .seconds(1) }) ?? true {
                try releaseGone()
                if jobs.count < request.limit {
                    var rest = request
                    rest.limit -= jobs.count
                    jobs += try claim(rest)
                }
            }
            if !jobs.isEmpty { try takeLease(request.lease) }
            return Exchange(
                isSettled: isSettled, jobs: jobs, next: jobs.count < request.limit ? try next() : nil)
        }
    }

    // MARK: Settling

    private func settle(_ settlement: Settlement) throws(QueueError) -> Bool {
        let claim = settlement.claim
        let row = try connection().row(
            "SELECT \(LifeRow.columns), attempt_count, attempts, failure FROM job WHERE id = ?", .text(claim.id)
        ) { row throws(QueueError) in
            (
                own: LifeRow(row), attemptCount: row.integer(LifeRow.count) ?? 0,
                attempts: row.text(LifeRow.count + 1), failure: row.text(LifeRow.count + 2)
            )
        }
        guard let row, row.own.life.lease?.owner == owners.name else { return false }
        var life = row.own.life
        guard life.handle(.settled(token: claim.token, settlement.verdict)) else { return false }
        var (attemptCount, attempts, failure) = (row.attemptCount, row.attempts, row.failure)
        if let attempt = settlement.attempt {
            attemptCount += 1
            attempts = JobText.attempts((JobText.attempts(of: attempts) + [attempt]).suffix(JobRecord.maxAttempts))
        }
        var (due, result) = (Int64?.none, row.own.result)
        switch settlement.verdict {
        case .retry(let delay): due = time.now + Int64(clamping: delay)
        case .dead(let reason): failure = reason
        case .answered(let new): result = try keep(new, for: row.own)
        case .done, .release: break
        }
        if !life.hasResult, let number = result {
            try connection().run("DELETE FROM result WHERE number = ?", .integer(number))
            result = nil
        }
        if due.map({ $0 <= time.now }) ?? false { due = nil }
        let isDue = life.state == .waiting && due != nil
        try connection().run(
            """
            UPDATE job SET state = ?, owner = NULL, due = ?, due_clock = 0, attempt_count = ?, attempts = ?, failure = ?,
                result = ?, finished = ?, lapses = ? WHERE position = ?
            """, .integer(isDue ? 1 : LifeRow.number(of: life.state)), SQLiteValue(due), .integer(attemptCount),
            SQLiteValue(attempts), SQLiteValue(failure), SQLiteValue(result),
            life.state.isFinished ? .integer(time.now) : .null, .integer(Int64(life.lapseCount)),
            .integer(row.own.position))
        if life.state == .waiting || life.state == .answered { mustRing = true }
        if life.state.isFinished { try finished(row.own, life.state) }
        return true
    }

    private func keep(_ result: JobResult, for row: LifeRow) throws(QueueError) -> Int64 {
        try connection().run(
            "INSERT INTO result(status, fields, bytes, is_cut, failure) VALUES(?, ?, ?, ?, ?)",
            SQLiteValue(result.statusCode.map(Int64.init)), SQLiteValue(JobText.fields(result.headerFields)),
            .blob(result.body), .integer(result.isBodyCut ? 1 : 0), SQLiteValue(result.failure))
        return try connection().number("SELECT last_insert_rowid()") ?? 0
    }

    // MARK: Claiming

    /// Lets jobs go whose time has come.
    private func makeDue() throws(QueueError) {
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

    private func expire() throws(QueueError) {
        try end("expires IS NOT NULL AND state <= 2 AND expires <= ?", .integer(time.date), JobRecord.expired)
    }

    private func claim(_ request: ClaimRequest) throws(QueueError) -> [ClaimedJob] {
        guard request.limit > 0 else { return [] }
        var jobs = try claimSuspect(request)
        if jobs.count < request.limit {
            jobs += try claim(
                "state = 0 AND lapses < 2", "priority DESC, position", request.kinds, request.limit - jobs.count)
        }
        if jobs.count < request.limit {
            jobs += try claim(
                "state = 4 AND lapses < 2", "position", request.answeredKinds, request.limit - jobs.count)
        }
        return jobs
    }

    /// Claims a job whose claims have lapsed, unless this owner has one of those.
    private func claimSuspect(_ request: ClaimRequest) throws(QueueError) -> [ClaimedJob] {
        // By the index of suspects, which is empty nearly always.
        let (owns, mayClaim) = try connection().rows(
            "SELECT state, owner FROM job INDEXED BY job_suspect WHERE lapses >= 2 AND state IN (0, 3, 4)"
        ) { row throws(QueueError) in (row.integer(0) == 3 && row.text(1) == owners.name, row.integer(0) != 3) }
        .reduce((false, false)) { ($0.0 || $1.0, $0.1 || $1.1) }
        guard mayClaim, !owns else { return [] }
        let jobs = try claim("state = 0 AND lapses >= 2", "priority DESC, position", request.kinds, 1)
        return jobs.isEmpty ? try claim("state = 4 AND lapses >= 2", "position", request.answeredKinds, 1) : jobs
    }

    private func claim(
        _ state: String, _ order: String, _ kinds: ClaimRequest.Kinds, _ limit: Int
    ) throws(QueueError) -> [ClaimedJob] {
        if kinds == .only([]) { return [] }
        let (condition, values) = Self.condition(kinds)
        let records = try connection().rows(
            """
            SELECT \(JobRow.columns) FROM job WHERE \(state)\(condition) ORDER BY \(order) LIMIT ?
            """, values + [.integer(Int64(limit))]
        ) { row throws(QueueError) in JobRow(row) }
        var jobs: [ClaimedJob] = []
        jobs.reserveCapacity(records.count)
        let broken = records.filter { $0.defect != nil }
        for row in broken { try bury(row) }
        try take(records.filter { $0.defect == nil }.map(\.position))
        for row in records where row.defect == nil {
            var job = row.job
            job.request.body = try body(of: row)
            jobs.append(
                ClaimedJob(
                    claim: Claim(id: job.id, token: row.claimCount + 1), job: job, attemptCount: row.attemptCount,
                    lapseCount: row.life.lapseCount,
                    result: try row.result.flatMap { number throws(QueueError) in try result(number) }))
        }
        // Others take their place: fewer than asked for would mean that there are no more.
        return broken.isEmpty ? jobs : jobs + (try claim(state, order, kinds, broken.count))
    }

    /// Makes a dead letter of a job that cannot be read.
    private func bury(_ row: JobRow) throws(QueueError) {
        try end("position = ?", .integer(row.position), row.defect)
    }

    /// Makes dead letters of jobs that nobody has claimed.
    private func end(_ condition: String, _ value: SQLiteValue, _ failure: String?) throws(QueueError) {
        let rows = try connection().rows(
            "SELECT \(LifeRow.columns) FROM job WHERE \(condition) ORDER BY expires LIMIT ?",
            [value, .integer(Self.portion)]
        ) { row throws(QueueError) in LifeRow(row) }
        for row in rows {
            try connection().run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
            try connection().run(
                "UPDATE job SET state = 6, failure = ?, result = NULL, finished = ? WHERE position = ?",
                SQLiteValue(failure), .integer(time.now), .integer(row.position))
            try finished(row, .dead)
        }
    }

    /// Makes jobs this owner's, many by one statement.
    private func take(_ positions: [Int64]) throws(QueueError) {
        var rest = positions[...]
        while !rest.isEmpty {
            // Few sizes, because each is a statement that is kept; older libraries take no more than 999 values.
            let size = rest.count > 64 ? 512 : rest.count > 8 ? 64 : rest.count > 1 ? 8 : 1
            let some = rest.prefix(size)
            rest = rest.dropFirst(size)
            let padding = [SQLiteValue](repeating: .null, count: size - some.count)
            try connection().run(
                """
                UPDATE job SET state = 3, owner = ?, claims = claims + 1, due = NULL
                WHERE position IN (\(Self.marks(size)))
                """, [.text(owners.name)] + some.map(SQLiteValue.integer) + padding)
        }
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

    /// How long it is until there may be something to claim.
    private func next() throws(QueueError) -> Duration? {
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
