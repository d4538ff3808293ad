// Claiming, settling, renewing and releasing jobs.
import Convoy

extension PostgresStore {
    /// Settles claimed jobs, then claims others.
    public func exchange(
        _ settlements: [Settlement], claiming request: ClaimRequest?
    ) async throws(QueueError) -> Exchange {
        try await giveBackUnknown()
        var work = PostgresWork { [owner] transaction in
            var rules = PostgresRules(transaction)
            let isSettled = try rules.settle(settlements)
            guard let request else {
                rules.notify()
                return Exchange(isSettled: isSettled, jobs: [], next: nil)
            }
            try rules.passTime(for: owner, telling: request.answeredKinds)
            try rules.renew(owner, for: request.lease)
            let (jobs, hasMore) = try rules.claim(request, by: owner)
            let next = jobs.count >= request.limit ? nil : hasMore ? .zero : try rules.next(request, owner)
            rules.notify()
            return Exchange(isSettled: isSettled, jobs: jobs, next: next)
        }
        work.unknown = { [unknownExchanges] number in unknownExchanges.withLock { $0.append(number) } }
        let whole = WholeExchange(settlements, request, owner)
        guard whole.isPossible, stepsUntil.withLock({ $0 < .now }) else { return try await workers.perform(work) }
        let (wasWhole, broken) = (Locked(false), Locked([(position: Int64, defect: String)]()))
        work.whole = { number, given in
            try whole.work(number, given) { found in
                wasWhole.withLock { $0 = true }
                broken.withLock { $0 = found }
            }
        }
        let exchange = try await workers.perform(work)
        // If one round trip was not possible, the cause may last, for example a suspect, a waiting result or a job with
        // dependents. So exchanges run step by step for a second.
        if !wasWhole.withLock({ $0 }) { stepsUntil.withLock { $0 = .now + .seconds(1) } }
        let rest = broken.withLock { $0 }
        guard !rest.isEmpty else { return exchange }
        try await workers.transaction { transaction in
            var rules = PostgresRules(transaction)
            for job in rest { try rules.bury(job.position, job.defect) }
            rules.notify()
        }
        return exchange
    }

    /// Releases jobs claimed by exchanges whose COMMIT got no reply.
    ///
    /// The queue does not know these jobs. Without the release, the heartbeat would renew their leases forever.
    private func giveBackUnknown() async throws(QueueError) {
        let numbers = unknownExchanges.withLock { numbers in
            defer { numbers = [] }
            return numbers
        }
        guard !numbers.isEmpty else { return }
        do throws(QueueError) {
            try await workers.transaction { [owner] transaction in
                var rules = PostgresRules(transaction)
                // `mark` waits until a transaction with the same number has ended, so that the update sees its claims.
                for number in numbers { transaction.later(PostgresConnection.mark(number)) }
                let rows = try transaction.run(
                    """
                    UPDATE convoy_jobs SET owner = NULL, state = CASE WHEN has_result THEN 3 ELSE 0 END
                    WHERE owner = $1 AND state = 2 AND position IN (
                        SELECT unnest(positions) FROM convoy_commits WHERE number = ANY($2))
                    """, [.text(owner), .texts(numbers)])
                if rows.changedCount > 0 { rules.noteWork() }
                rules.notify()
            }
        } catch {
            unknownExchanges.withLock { $0 += numbers }
            throw error
        }
    }

    /// Renews the leases of this instance: the heartbeat.
    public func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try await workers.transaction { [owner] transaction in
            var rules = PostgresRules(transaction)
            try rules.passTime(for: owner, telling: nil)
            try rules.renew(owner, for: lease)
            rules.notify()
            try rules.forgetCommits()
            let rows = try transaction.run(
                "SELECT id, claim_count FROM convoy_jobs WHERE owner = $1 AND state = 2", [.text(owner)])
            let held = Set(
                try (0..<rows.count).map { row in
                    Claim(id: try rows.text(row, 0) ?? "", token: try rows.int(row, 1) ?? 0)
                })
            return claims.filter { !held.contains($0) }
        }
    }

    /// Releases all jobs that this instance has claimed.
    public func release() async throws(QueueError) {
        // A standby accepts only this search, so a store that has only read is closed there at once.
        let search = PostgresStatement("SELECT 1 FROM convoy_owners WHERE owner = $1", [.text(owner)])
        guard try await workers.read(search, { rows, _ in rows.count > 0 }) else { return }
        try await workers.transaction { [owner] transaction in
            var rules = PostgresRules(transaction)
            try rules.endLeases(of: [owner], for: owner)
            rules.notify()
        }
    }
}

extension PostgresRules {
    mutating func settle(_ settlements: [Settlement]) throws -> [Bool] {
        guard !settlements.isEmpty else { return [] }
        var isSettled = settlements.map { _ in false }
        let rows = try transaction.run(
            """
            WITH given AS MATERIALIZED (
                SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
                WITH ORDINALITY AS g(id, token, verdict, due, reason, attempt, number)),
            meant AS MATERIALIZED (
                SELECT j.position, g.* FROM given AS g JOIN convoy_jobs AS j USING (id)
                WHERE \(Self.isClaimed) ORDER BY j.position FOR UPDATE OF j)
            UPDATE convoy_jobs AS j SET \(Self.settling(due: "m.due", now: "$7"))
            FROM meant AS m WHERE j.position = m.position
            RETURNING \(Self.endedColumns), m.number
            """,
            [
                .texts(settlements.map(\.claim.id)), .ints(settlements.map(\.claim.token)),
                .ints(settlements.map { Self.number(of: $0.verdict) }),
                .ints(settlements.map { Self.delay(of: $0.verdict).map { transaction.time.now + $0 } }),
                .texts(settlements.map { Self.reason(of: $0.verdict) }),
                .texts(try settlements.map { try $0.attempt?.json() }),
                .int(transaction.time.now), .int(JobRecord.maxAttempts),
            ])
        var without: [Int64] = []
        for row in 0..<rows.count {
            let index = Int(try rows.int(row, 7) ?? 0) - 1
            guard isSettled.indices.contains(index) else { continue }
            isSettled[index] = true
            let position = try rows.int(row, 6) ?? 0
            switch settlements[index].verdict {
            case .answered(let result): try keep(result, at: position)
            case .release: noteWork()
            case .retry:
                noteWork()
                without.append(position)
            case .done, .dead: without.append(position)
            }
        }
        try drop(without, from: "convoy_results")
        try follow(Self.ended(rows))
        return isSettled
    }

    /// Whether the claim of a settlement `g` is the current one of a job `j`.
    ///
    /// IS TRUE hides the state from the planner. Otherwise the planner, if it has no statistics, would use the index of
    /// claimed jobs instead of that of ids.
    static let isClaimed = "(j.state = 2 AND j.claim_count = g.token) IS TRUE"

    /// The assignments of an SQL UPDATE that applies a settlement `m` to its job `j`.
    ///
    /// `$8` is the maximum number of stored attempts.
    static func settling(due: String, now: String) -> String {
        """
        owner = NULL, due = \(due), failure = m.reason,
        lapses = CASE WHEN m.verdict < 0 THEN j.lapses ELSE 0 END,
        state = CASE WHEN m.verdict > 0 THEN m.verdict WHEN m.verdict < 0 AND j.has_result THEN 3
            WHEN j.needs > 0 OR j.is_behind_group OR j.is_behind_key THEN 1 ELSE 0 END,
        has_result = CASE WHEN m.verdict < 0 THEN j.has_result ELSE m.verdict = 3 END,
        finished = CASE WHEN m.verdict >= 4 THEN \(now) END,
        attempt_count = j.attempt_count + CASE WHEN m.attempt IS NULL THEN 0 ELSE 1 END,
        attempts = CASE WHEN m.attempt IS NULL THEN j.attempts
            ELSE (j.attempts || m.attempt)[greatest(1, cardinality(j.attempts) + 2 - $8)::int4:] END
        """
    }

    /// The number of the state after a verdict; -1 means the state before the claim.
    static func number(of verdict: JobVerdict) -> Int64 {
        switch verdict {
        case .retry: 0
        case .answered: 3
        case .done: 4
        case .dead: 5
        case .release: -1
        }
    }

    static func reason(of verdict: JobVerdict) -> String? {
        if case .dead(let reason) = verdict { PostgresLimits.visible(reason) } else { nil }
    }

    static func delay(of verdict: JobVerdict) -> Int64? {
        if case .retry(let delay) = verdict { microseconds(delay) } else { nil }
    }

    static func microseconds(_ duration: Duration) -> Int64 {
        // The duration is limited to a thousand years, because the product of a longer one could overflow and stop the
        // process.
        let (seconds, rest) = min(max(duration, .zero), .seconds(31_556_952_000)).components
        return seconds * 1_000_000 + rest / 1_000_000_000_000
    }

    mutating func keep(_ result: JobResult, at position: Int64) throws {
        noteWork()
        try transaction.run(
            """
            INSERT INTO convoy_results (position, status_code, header_fields, body, is_body_cut, failure)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (position) DO UPDATE SET status_code = excluded.status_code,
                header_fields = excluded.header_fields, body = excluded.body, is_body_cut = excluded.is_body_cut,
                failure = excluded.failure
            """,
            [
                .int(position), .int(result.statusCode.map { Int64($0) }),
                .text(try PostgresJobs.text(of: result.headerFields)), .bytes(Array(result.body)),
                .bool(result.isBodyCut), .text(PostgresLimits.visible(result.failure)),
            ])
    }
}
