// Settling and exchanging.
import Convoy
import Foundation

extension SQLiteWorker {
    func exchange(_ settlements: [Settlement], _ request: ClaimRequest?) throws(QueueError) -> Exchange {
        try transaction { () throws(QueueError) in
            var isSettled: [Bool] = []
            for settlement in settlements { isSettled.append(try settle(settlement)) }
            if settlements.contains(where: { if case .retry = $0.verdict { true } else { false } }) {
                try time.note(in: connection())
            }
            guard let request else { return Exchange(isSettled: isSettled, jobs: [], next: nil) }
            try releaseEnded()
            try expire(telling: request.answeredKinds)
            try makeDue()
            var jobs = try claim(request)
            if jobs.count < request.limit || lastLook.map({ .now - $0 > .seconds(1) }) ?? true {
                if try releaseGone(), jobs.count < request.limit { jobs += try claim(request.rest(after: jobs)) }
            }
            if !jobs.isEmpty { try takeLease(request.lease) }
            return Exchange(
                isSettled: isSettled, jobs: jobs, next: jobs.count < request.limit ? try next() : nil)
        }
    }

    // MARK: Settling

    /// Settles a simple job in one statement: done at the first attempt, without body, group, key or dependents.
    private static let simplyDone = """
        UPDATE job SET state = 5, owner = NULL, due = NULL, due_clock = 0, attempt_count = attempt_count + 1, attempts = ?,
            finished = ?, lapses = 0
        WHERE id = ? AND state = 3 AND owner = ? AND claims = ? AND attempts IS NULL AND result IS NULL AND body IS NULL
            AND grp IS NULL AND key IS NULL AND NOT EXISTS (SELECT 1 FROM dependency WHERE needs = job.id)
        """

    private static let settled = "SELECT \(LifeRow.columns), attempt_count, attempts, failure FROM job WHERE id = ?"

    private func settle(_ settlement: Settlement) throws(QueueError) -> Bool {
        let claim = settlement.claim
        if case .done = settlement.verdict, let attempt = settlement.attempt {
            let count = try connection().run(
                Self.simplyDone, SQLiteValue(JobText.attempts([attempt])), .integer(time.now), .text(claim.id),
                .text(owners.name), .integer(claim.token))
            if count > 0 { return true }
        }
        let row = try connection().row(Self.settled, .text(claim.id)) { row throws(QueueError) in
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
        case .answered(let new): result = try keep(new)
        case .done, .release: break
        }
        if !life.hasResult, let number = result {
            try connection().run("DELETE FROM result WHERE number = ?", .integer(number))
            result = nil
        }
        if due.map({ $0 <= time.now }) ?? false { due = nil }
        let isDue = life.state == .waiting && due != nil
        // A blocked job that expires is passed to its handler. If the handler retries it, the job is blocked again (2),
        // because `missing` and `behind` are unchanged.
        try connection().run(
            """
            UPDATE job SET state = CASE WHEN ?1 <= 1 AND (missing > 0 OR behind <> 0) THEN 2 ELSE ?1 END,
                owner = NULL, due = ?, due_clock = 0, attempt_count = ?, attempts = ?, failure = ?, result = ?, finished = ?,
                lapses = ?, body = ? WHERE position = ?
            """, .integer(isDue ? 1 : LifeRow.number(of: life.state)), SQLiteValue(due), .integer(attemptCount),
            SQLiteValue(attempts), SQLiteValue(failure), SQLiteValue(result),
            life.state.isFinished ? .integer(time.now) : .null, .integer(Int64(life.lapseCount)),
            life.state == .done ? .null : SQLiteValue(row.own.body), .integer(row.own.position))
        if life.state == .waiting || life.state == .answered { mustRing = true }
        if life.state.isFinished { try finished(row.own, life.state) }
        return true
    }

    /// Stores a result.
    ///
    /// Returns the number of the result's row.
    func keep(_ result: JobResult) throws(QueueError) -> Int64 {
        try connection().run(
            "INSERT INTO result(status, fields, bytes, is_cut, failure) VALUES(?, ?, ?, ?, ?)",
            SQLiteValue(result.statusCode.map(Int64.init)), SQLiteValue(JobText.fields(result.headerFields)),
            .blob(result.body), .integer(result.isBodyCut ? 1 : 0), SQLiteValue(result.failure))
        return try connection().number("SELECT last_insert_rowid()") ?? 0
    }
}
