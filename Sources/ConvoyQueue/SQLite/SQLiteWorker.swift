import Convoy
import ConvoySQLite
import Foundation

final class SQLiteWorker: @unchecked Sendable {
    // @unchecked: made by one thread, and then used on the serial queue of its store only.
    let owners: SQLiteOwners
    let bodies: SQLiteBodies
    private(set) var time: SQLiteTime
    private var open: SQLiteConnection?
    private let path: String
    /// The numbers are compared before each commit, because SQLite would continue to use files that were deleted or
    /// replaced.
    private var opened: [(path: String, number: UInt64)] = []
    var removals: [String] = []
    /// Their lock files are removed after the commit.
    private var ended: [String] = []
    var mustRing = false
    var lastLook: ContinuousClock.Instant?

    init(file: URL, clock: any RequestClock, boot: String) throws(QueueError) {
        time = SQLiteTime(clock: clock)
        let file = Self.withoutLinks(file)
        path = file.path
        let connection = try Self.connect(path)
        // The file may belong to another program, so it is checked before the directory is created.
        do { try SQLiteSchema.prepare(connection) } catch { throw QueueError(error, of: path) }
        let directory = URL(fileURLWithPath: path + "-convoy")
        let places = (owners: directory.appending(path: "owners"), bodies: directory.appending(path: "bodies"))
        for place in [directory, places.owners, places.bodies] {
            guard mkdir(place.path, 0o700) == 0 || errno == EEXIST else {
                throw QueueError(path: place.path, code: 14, system: errno, doing: "made")
            }
        }
        try SQLiteBodies.sync(directory)
        try SQLiteBodies.sync(file.deletingLastPathComponent())
        owners = try SQLiteOwners(in: places.owners)
        bodies = SQLiteBodies(in: places.bodies, owner: owners.name)
        open = connection
        opened = [path, path + "-wal"].compactMap { path in Self.number(of: path).map { (path, $0) } }
        do {
            try transaction {
                if try time.anchor(in: connection, boot: boot) { try endLeases("1 = ?", .integer(1)) }
                try releaseGone()
            }
            try removeOrphans()
        } catch {
            // The owner has no row yet, so no other process needs its lock file.
            owners.close()
            throw QueueError(error, of: path)
        }
    }

    private static func connect(_ path: String) throws(QueueError) -> SQLiteConnection {
        // The permissions of a device, such as `/dev/null`, must not change.
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw QueueError(
                .notPermitted, "\(path) is not a regular file: name another file; this one was not changed")
        }
        do { return try SQLiteConnection(path) } catch { throw QueueError(error, of: path, doing: "opened") }
    }

    /// Processes that open a database by different names must use the same lock files.
    private static func withoutLinks(_ file: URL) -> URL {
        func real(_ url: URL) -> URL? {
            guard let path = realpath(url.path, nil) else { return nil }
            defer { free(path) }
            return URL(fileURLWithPath: String(cString: path))
        }
        return real(file) ?? real(file.deletingLastPathComponent())?.appending(path: file.lastPathComponent) ?? file
    }

    var connection: SQLiteConnection {
        get throws {
            guard let open else { throw QueueError(.closed, "the store was closed before") }
            return open
        }
    }

    func result<Value>(_ body: (SQLiteWorker) throws -> Value) -> Result<Value, QueueError> {
        do { return .success(try body(self)) } catch { return .failure(QueueError(error, of: path)) }
    }

    private static func number(of path: String) -> UInt64? {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
    }

    private func checkPlace() throws {
        for file in opened where Self.number(of: file.path) != file.number {
            throw QueueError(moved: file.path, of: path)
        }
    }

    func takeRing() -> Bool {
        defer { mustRing = false }
        return mustRing
    }

    /// After the commit, the files in `removals` and the lock files of `ended` are removed.
    func transaction<Value>(_ body: () throws -> Value) throws -> Value {
        (removals, ended) = ([], [])
        defer { (removals, ended) = ([], []) }
        do {
            let value = try connection.transaction {
                let value = try body()
                try checkPlace()
                return value
            }
            bodies.remove(removals)
            owners.remove(ended)
            return value
        } catch {
            mustRing = false
            throw error
        }
    }

    func close() throws {
        guard open != nil else { return }
        var isReleased = false
        defer {
            open = nil
            owners.close(isReleased: isReleased)
        }
        try release()
        isReleased = true
        try transaction { try time.note(in: connection) }
    }

    // MARK: Owners

    func renew(_ claims: [Claim], _ lease: Duration) throws -> [Claim] {
        try transaction {
            try releaseEnded()
            try takeLease(lease)
            try time.note(in: connection)
            return try claims.filter { claim in
                try connection.number(
                    "SELECT 1 FROM job WHERE id = ? AND state = 3 AND owner = ? AND claims = ?", .text(claim.id),
                    .text(owners.name), .integer(claim.token)) == nil
            }
        }
    }

    func takeLease(_ lease: Duration) throws {
        try checkPlace()
        owners.restore()
        try connection.run(
            "INSERT OR REPLACE INTO owner VALUES(?, ?)", .text(owners.name),
            .integer(time.now + Int64(clamping: lease)))
    }

    func release() throws {
        try transaction { try endLeases("name = ?", .text(owners.name)) }
    }

    func releaseEnded() throws {
        try endLeases("name <> '\(owners.name)' AND ends <= ?", .integer(time.now))
    }

    /// Returns whether such owners were found.
    @discardableResult
    func releaseGone() throws -> Bool {
        lastLook = .now
        let names = try connection.rows("SELECT name FROM owner") { $0.text(0) }
        let gone = names.filter { owners.isGone($0) }
        for name in gone { try endLeases("name = ?", .text(name)) }
        ended += gone
        return !gone.isEmpty
    }

    /// Claims of other owners count as lapsed; those of this instance do not.
    private func endLeases(_ condition: String, _ value: SQLiteValue) throws {
        // As in ``JobLife/lapseDelay``: from the second lapse on, a job waits 1, 2, 4 and so on up to 64 seconds.
        let waits = "result IS NULL AND lapses > 0 AND owner <> '\(owners.name)'"
        let count = try connection.run(
            """
            UPDATE job SET owner = NULL, lapses = lapses + (owner <> '\(owners.name)'), due_clock = 0,
                due = CASE WHEN \(waits) THEN \(time.now) + (1000 << min(6, lapses - 1)) END,
                state = CASE WHEN result IS NOT NULL THEN 4 WHEN \(waits) THEN 1 ELSE 0 END
            WHERE state = 3 AND owner IN (SELECT name FROM owner WHERE \(condition))
            """, value)
        try connection.run("DELETE FROM owner WHERE \(condition)", value)
        if count > 0 { mustRing = true }
    }

    private func removeOrphans() throws {
        let bodyNames = bodies.abandoned { owners.isGone($0, isMissingGone: true) }
        bodies.remove(
            try bodyNames.filter {
                try connection.number("SELECT 1 FROM body WHERE file = ? LIMIT 1", .text($0)) == nil
            })
        // The lock file of an owner with a row stays until its leases have ended.
        owners.remove(
            try owners.all.filter { name in
                try owners.isGone(name)
                    && connection.number("SELECT 1 FROM owner WHERE name = ?", .text(name)) == nil
            })
    }

    // MARK: Adding

    func add(_ lists: [[Job]]) -> [AdditionGroup.Outcome] {
        let files = lists.map { list in result { try $0.writeBodies(of: list) } }
        let names = files.flatMap { ((try? $0.get()) ?? [:]).values }
        do {
            if !names.isEmpty { try SQLiteBodies.sync(bodies.directory) }
            let outcomes = try transaction {
                var outcomes: [AdditionGroup.Outcome] = []
                for (list, files) in zip(lists, files) {
                    let before = removals
                    let outcome = try connection.part { try insert(list, files.get()) }
                    if case .failure = outcome { removals = before + ((try? files.get()) ?? [:]).values }
                    outcomes.append(outcome.mapError { QueueError($0, of: path) })
                }
                return outcomes
            }
            mustRing = true
            return outcomes
        } catch {
            // After a failed sync the log may contain the commit nevertheless, so the body files stay. After this store
            // has ended, the next opening of the database removes the unused ones.
            let error = QueueError(error, of: path)
            let isUnknown = error.code == .failed || open?.isCommitUnknown ?? false
            if !isUnknown { bodies.remove(names) }
            // One list may be too large for the disk, so each list is tried alone.
            if error.code == .diskFull, !isUnknown, lists.count > 1 { return lists.flatMap { add([$0]) } }
            return lists.map { _ in .failure(error) }
        }
    }

    private func writeBodies(of jobs: [Job]) throws -> [Int: String] {
        var files: [Int: String] = [:]
        do {
            for (index, job) in jobs.enumerated() {
                guard let data = job.request.body?.data, data.count > SQLiteBodies.rowLimit else { continue }
                files[index] = try bodies.write(data)
            }
            return files
        } catch {
            bodies.remove(Array(files.values))
            throw error
        }
    }

    private func insert(_ jobs: [Job], _ files: [Int: String]) throws -> [JobAddition] {
        var next = (try connection.number("SELECT max(position) FROM job") ?? 0) + 1
        return try jobs.enumerated().map { index, job in
            let addition = try add(job, at: next, bodyFile: files[index])
            if addition.outcome == .added { next += 1 } else if let file = files[index] { removals.append(file) }
            return addition
        }
    }

    private func add(_ job: Job, at position: Int64, bodyFile: String?) throws -> JobAddition {
        let connection = try self.connection
        let here = try connection.number("SELECT 1 FROM job WHERE id = ?", .text(job.id))
        if here != nil { return JobAddition(id: job.id, outcome: .alreadyThere) }
        let policy = job.uniqueness?.policy
        let others = try unfinished("key", job.uniqueness?.key, limit: policy == .replace ? -1 : 1)
        // A replaced job is cancelled first, because it may be a dependency of the new job.
        if policy == .replace { for other in others { _ = try cancel(other) } }
        let missing = try missing(of: job)
        if policy == .keep, let kept = others.first { return JobAddition(id: kept, outcome: .kept) }
        let isBehindGroup = try !unfinished("grp", job.group, limit: 1).isEmpty
        let behind: Int64 = (isBehindGroup ? 1 : 0) + (policy == .append && !others.isEmpty ? 2 : 0)
        let notBefore = job.notBefore.map { Int64(clamping: $0) }
        let due = notBefore.flatMap { $0 > time.date ? $0 : nil }
        let isCancelled = missing == nil
        let state: Int64 = isCancelled ? 7 : missing?.isEmpty == false || behind != 0 ? 2 : due == nil ? 0 : 1
        let body = isCancelled ? nil : job.request.body
        if isCancelled, let bodyFile { removals.append(bodyFile) }
        if case .data(let data)? = body {
            try connection.run(
                "INSERT INTO body VALUES(?, ?, ?)", .integer(position), bodyFile == nil ? .blob(data) : .null,
                SQLiteValue(bodyFile))
        }
        try connection.run(
            """
            INSERT INTO job(position, id, kind, state, priority, due, due_clock, not_before, expires, needs, missing, behind, grp,
                key, key_policy, tags, method, url, fields, body, body_path, destination, idempotency_key, added, finished,
                follows_as_get, host)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(position), .text(job.id), .text(job.kind), .integer(state),
                .integer(Int64(job.priority.rawValue)), SQLiteValue(due), .integer(due == nil ? 0 : 1),
                SQLiteValue(notBefore), SQLiteValue(job.expires.map { Int64(clamping: $0) }),
                SQLiteValue(JobText.lines(job.dependencies)), .integer(Int64(missing?.count ?? 0)), .integer(behind),
                SQLiteValue(job.group), SQLiteValue(job.uniqueness?.key), SQLiteValue(job.uniqueness?.policy.rawValue),
                SQLiteValue(JobText.tags(job.tags)), .text(job.request.method.rawValue),
                .text(job.request.url.absoluteString), SQLiteValue(JobText.fields(job.request.headerFields)),
                SQLiteValue(body?.data == nil ? nil : position), SQLiteValue(body?.file?.path),
                SQLiteValue(job.request.destination?.path),
                .text(job.idempotencyKey), .integer(time.date), isCancelled ? .integer(time.now) : .null,
                .integer(job.request.followsRedirectsAsGet ? 1 : 0), .text(job.request.host),
            ])
        for id in missing ?? [] {
            try connection.run("INSERT INTO dependency(needs, job) VALUES(?, ?)", .text(id), .text(job.id))
        }
        return JobAddition(id: job.id, outcome: .added)
    }

    private func missing(of job: Job) throws -> Set<String>? {
        var missing: Set<String> = []
        var isCancelled = false
        for id in job.dependencies {
            switch try connection.number("SELECT state FROM job WHERE id = ?", .text(id)) {
            case nil: throw QueueError(.unknownJob, "\(job.id.shownID) depends on \(id.shownID), which does not exist")
            case 5: break
            case 7: isCancelled = true
            default: missing.insert(id)
            }
        }
        return isCancelled ? nil : missing
    }

    private func unfinished(_ column: String, _ value: String?, limit: Int64) throws -> [String] {
        guard let value else { return [] }
        return try connection.rows(
            "SELECT id FROM job WHERE \(column) = ? AND state <= 4 ORDER BY position LIMIT ?",
            [.text(value), .integer(limit)]
        ) { $0.text(0) }
    }

    // MARK: Settling and exchanging

    func exchange(_ settlements: [Settlement], _ request: ClaimRequest?) throws -> Exchange {
        try transaction {
            let isSettled = try settlements.map { try settle($0) }
            if settlements.contains(where: { if case .retry = $0.verdict { true } else { false } }) {
                try time.note(in: connection)
            }
            guard let request else { return Exchange(isSettled: isSettled, jobs: [], next: nil) }
            try releaseEnded()
            guard try expire(telling: request.answeredKinds) else {
                return Exchange(isSettled: isSettled, jobs: [], next: try next())
            }
            try makeDue()
            var jobs = try claim(request)
            if jobs.count < request.limit || lastLook.map({ .now - $0 > .seconds(1) }) ?? true {
                if try releaseGone(), jobs.count < request.limit { jobs += try claim(request.rest(after: jobs)) }
            }
            if !jobs.isEmpty { try takeLease(request.lease) }
            return Exchange(isSettled: isSettled, jobs: jobs, next: jobs.count < request.limit ? try next() : nil)
        }
    }

    /// Settles a job that is done at the first attempt, without body, group, key or dependents.
    private static let simplyDone = """
        UPDATE job SET state = 5, owner = NULL, due = NULL, due_clock = 0, attempt_count = attempt_count + 1, attempts = ?,
            finished = ?, lapses = 0
        WHERE id = ? AND state = 3 AND owner = ? AND claims = ? AND attempts IS NULL AND result IS NULL AND body IS NULL
            AND grp IS NULL AND key IS NULL AND NOT EXISTS (SELECT 1 FROM dependency WHERE needs = job.id)
        """

    private func settle(_ settlement: Settlement) throws -> Bool {
        let claim = settlement.claim
        if case .done = settlement.verdict, let attempt = settlement.attempt {
            let count = try connection.run(
                Self.simplyDone, SQLiteValue(JobText.attempts([attempt])), .integer(time.now), .text(claim.id),
                .text(owners.name), .integer(claim.token))
            if count > 0 { return true }
        }
        guard let row = try row(of: claim.id), row.life.lease?.owner == owners.name else { return false }
        var life = row.life
        guard life.handle(.settled(token: claim.token, settlement.verdict)) else { return false }
        var (attemptCount, attempts, failure) = (Int64(row.record.attemptCount), row.attempts, row.record.failure)
        if let attempt = settlement.attempt {
            attemptCount += 1
            attempts = JobText.attempts((JobText.attempts(of: attempts) + [attempt]).suffix(JobRecord.maxAttempts))
        }
        var (due, result) = (Int64?.none, row.result)
        switch settlement.verdict {
        case .retry(let delay): due = delay > .zero ? time.now + Int64(clamping: delay) : nil
        case .dead(let reason): failure = reason
        case .answered(let new): result = try keep(new)
        case .done, .release: break
        }
        if !life.hasResult, let number = result {
            try connection.run("DELETE FROM result WHERE number = ?", .integer(number))
            result = nil
        }
        // A blocked job that expires is passed to its handler. If the handler retries it, the job is blocked again (2),
        // because `missing` and `behind` are unchanged.
        try connection.run(
            """
            UPDATE job SET state = CASE WHEN ?1 <= 1 AND (missing > 0 OR behind <> 0) THEN 2 ELSE ?1 END,
                owner = NULL, due = ?, due_clock = 0, attempt_count = ?, attempts = ?, failure = ?, result = ?, finished = ?,
                lapses = ?, body = ? WHERE position = ?
            """, .integer(due != nil ? 1 : JobRow.number(of: life.state)), SQLiteValue(due), .integer(attemptCount),
            SQLiteValue(attempts), SQLiteValue(failure), SQLiteValue(result),
            life.state.isFinished ? .integer(time.now) : .null, .integer(Int64(life.lapseCount)),
            life.state == .done ? .null : SQLiteValue(row.body), .integer(row.record.position))
        if life.state == .waiting || life.state == .answered { mustRing = true }
        if life.state.isFinished { try finished(row, life.state) }
        return true
    }

    /// Returns the number of the result's row.
    func keep(_ result: JobResult) throws -> Int64 {
        try connection.run(
            "INSERT INTO result(status, fields, bytes, is_cut, failure) VALUES(?, ?, ?, ?, ?)",
            SQLiteValue(result.statusCode.map(Int64.init)), SQLiteValue(JobText.fields(result.headerFields)),
            .blob(result.body), .integer(result.isBodyCut ? 1 : 0), SQLiteValue(result.failure))
        return try connection.number("SELECT last_insert_rowid()") ?? 0
    }

    // MARK: Claiming

    /// The next exchange, which is due at once, handles the remaining jobs.
    private static let portion = 1_000

    func makeDue() throws {
        for (clock, now) in [(Int64(0), time.now), (1, time.date)] {
            try connection.run(
                """
                UPDATE job SET state = 0, due = NULL, due_clock = 0 WHERE position IN
                    (SELECT position FROM job WHERE state = 1 AND due_clock = ? AND due <= ? ORDER BY due LIMIT ?)
                """, .integer(clock), .integer(now), .integer(Int64(Self.portion)))
        }
    }

    // Expired jobs of the given kinds wait for their handler instead. False if there may be more: then no job is
    // claimed, because it may have expired.
    func expire(telling kinds: ClaimRequest.Kinds) throws -> Bool {
        let rows = try connection.rows(
            """
            SELECT \(JobRow.columns) FROM job WHERE expires IS NOT NULL AND state <= 2 AND expires <= ?
            ORDER BY expires LIMIT ?
            """, [.integer(time.date), .integer(Int64(Self.portion))]
        ) { JobRow($0) }
        for row in rows {
            guard kinds.contains(row.job.kind) else {
                try end(row, as: .dead, JobRecord.expired)
                continue
            }
            try connection.run(
                "UPDATE job SET state = 4, due = NULL, result = ? WHERE position = ?",
                .integer(try keep(JobResult(failure: JobRecord.expired))), .integer(row.record.position))
        }
        return rows.count < Self.portion
    }

    func claim(_ request: ClaimRequest) throws -> [ClaimedJob] {
        guard request.limit > 0 else { return [] }
        var jobs = try claimSuspect(request)
        jobs += try claimReady(request, request.limit - jobs.count)
        let answered = "state = 4 AND lapses < 2"
        return jobs + (try claim(answered, "position", request.answeredKinds, request.limit - jobs.count))
    }

    private func claimReady(_ request: ClaimRequest, _ limit: Int) throws -> [ClaimedJob] {
        let ready = "state = 0 AND lapses < 2"
        if request.kinds == .only([]) { return [] }
        guard request.maxPerHost != nil else { return try claim(ready, Self.order, request.kinds, limit) }
        let (condition, values) = Self.condition(request.kinds)
        // Usually all of the first jobs may be claimed. If they would exceed the limit of a host, this search ends, and
        // `fillRooms` searches host by host.
        var (first, counts, isFull): ([Int64], [String: Int], Bool) = ([], [:], false)
        try connection.forEachRow(
            "SELECT position, host FROM job WHERE \(ready)\(condition) ORDER BY \(Self.order) LIMIT ?",
            values + [.integer(Int64(limit))]
        ) { row in
            let host = row.text(1) ?? ""
            counts[host, default: 0] += 1
            isFull = counts[host, default: 0] > request.room(of: host)
            if !isFull { first.append(row.integer(0) ?? 0) }
            return !isFull
        }
        if isFull { first = try fillRooms(request, limit, ready) }
        let rows = try connection.rows(
            "SELECT \(JobRow.columns) FROM job WHERE position IN \(Self.listed) ORDER BY \(Self.order)",
            [Self.list(first)]
        ) { JobRow($0) }
        let jobs = try take(rows)
        // Claims other jobs instead of unreadable ones. A result below the limit would mean that no more jobs are
        // ready.
        return jobs.count == rows.count ? jobs : jobs + (try claimReady(request.rest(after: jobs), limit - jobs.count))
    }

    /// Returns no more positions of a host than the request allows, in the order of sending.
    private func fillRooms(_ request: ClaimRequest, _ limit: Int, _ ready: String) throws -> [Int64] {
        let (condition, values) = Self.condition(request.kinds)
        var candidates: [(Int64, Int64, Int64)] = []
        var host = try connection.row("SELECT min(host) FROM job WHERE state = 0") { $0.text(0) }
        while let known = host {
            candidates += try connection.rows(
                """
                SELECT -priority, attempt_count > 0, position FROM job INDEXED BY job_host
                WHERE \(ready) AND host = ?\(condition) ORDER BY \(Self.order) LIMIT ?
                """, [.text(known)] + values + [.integer(Int64(min(limit, request.room(of: known))))]
            ) { ($0.integer(0) ?? 0, $0.integer(1) ?? 0, $0.integer(2) ?? 0) }
            host = try connection.row("SELECT min(host) FROM job WHERE state = 0 AND host > ?", .text(known)) {
                $0.text(0)
            }
        }
        return candidates.sorted { $0 < $1 }.prefix(limit).map(\.2)
    }

    private static let order = "priority DESC, attempt_count > 0, position"

    /// A suspect has at least two lapsed claims; an owner claims only one at a time.
    private func claimSuspect(_ request: ClaimRequest) throws -> [ClaimedJob] {
        // The query uses the index of suspects, which is usually empty.
        let mayClaim = try connection.number(
            """
            SELECT max(state <> 3) > max(state = 3 AND owner = ?) FROM job INDEXED BY job_suspect
            WHERE lapses >= 2 AND state IN (0, 3, 4)
            """, .text(owners.name))
        guard mayClaim == 1 else { return [] }
        let jobs = try claim("state = 0 AND lapses >= 2", Self.order, request.kinds, 1)
        return jobs.isEmpty ? try claim("state = 4 AND lapses >= 2", "position", request.answeredKinds, 1) : jobs
    }

    private func claim(
        _ state: String, _ order: String, _ kinds: ClaimRequest.Kinds, _ limit: Int
    ) throws -> [ClaimedJob] {
        if kinds == .only([]) { return [] }
        let (condition, values) = Self.condition(kinds)
        let rows = try connection.rows(
            "SELECT \(JobRow.columns) FROM job WHERE \(state)\(condition) ORDER BY \(order) LIMIT ?",
            values + [.integer(Int64(limit))]
        ) { JobRow($0) }
        let jobs = try take(rows)
        // Claims other jobs instead of unreadable ones, as in `claimReady`.
        return jobs.count == rows.count ? jobs : jobs + (try claim(state, order, kinds, rows.count - jobs.count))
    }

    private func take(_ rows: [JobRow]) throws -> [ClaimedJob] {
        for row in rows where row.defect != nil { try end(row, as: .dead, row.defect) }
        let readable = rows.filter { $0.defect == nil }
        if !readable.isEmpty {
            try connection.run(
                "UPDATE job SET state = 3, owner = ?, claims = claims + 1, due = NULL WHERE position IN \(Self.listed)",
                .text(owners.name), Self.list(readable.map(\.record.position)))
        }
        return try readable.map { row in
            var job = row.job
            job.request.body = try body(of: row)
            let result = try row.result.flatMap { try self.result($0) }
            return ClaimedJob(
                claim: Claim(id: job.id, token: row.life.claimCount + 1), job: job,
                attemptCount: row.record.attemptCount, lapseCount: row.life.lapseCount, result: result)
        }
    }

    /// A parameter with a JSON array, because the connection caches a statement for each text.
    private static let listed = "(SELECT value FROM json_each(?))"

    private static func list(_ values: some Encodable) -> SQLiteValue {
        .text((try? JSONEncoder().encode(values)).map { String(decoding: $0, as: UTF8.self) } ?? "[]")
    }

    // SQLite cuts a text of JSON at NUL, so that another job would be meant. No stored text contains it.
    private static func isStorable(_ text: String) -> Bool { !text.utf8.contains(0) }

    private static func condition(_ kinds: ClaimRequest.Kinds) -> (String, [SQLiteValue]) {
        switch kinds {
        case .all: ("", [])
        case .only(let kinds): (" AND kind IN \(listed)", [list(kinds.filter(isStorable))])
        case .except(let kinds): (" AND kind NOT IN \(listed)", [list(kinds.filter(isStorable))])
        }
    }

    /// Until a job's date, delay or expiry has passed, or another owner's lease ends.
    func next() throws -> Duration? {
        let wait = try connection.number(
            """
            SELECT min(wait) FROM (
                SELECT (SELECT min(due) FROM job WHERE state = 1 AND due_clock = 0) - ?1 AS wait
                UNION ALL SELECT (SELECT min(due) FROM job WHERE state = 1 AND due_clock = 1) - ?2
                UNION ALL SELECT (SELECT min(expires) FROM job WHERE expires IS NOT NULL AND state <= 2) - ?2
                UNION ALL SELECT (SELECT min(ends) FROM owner WHERE name <> ?3
                    AND EXISTS(SELECT 1 FROM job WHERE state = 3 AND job.owner = owner.name)) - ?1)
            """, .integer(time.now), .integer(time.date), .text(owners.name))
        return wait.map { .milliseconds(max(0, $0)) }
    }

    // MARK: Changes that a caller requests

    /// The rows are read in portions of 1,000, so that a million rows need little memory.
    private func forEach(_ selection: JobSelection, and more: String, _ body: (JobRow) throws -> Int) throws -> Int {
        let (condition, values) = try condition(of: selection)
        // The loop visits only positions that exist now, so that it would end even if `body` added rows.
        let last = try connection.number("SELECT max(position) FROM job") ?? 0
        var (position, count) = (Int64(0), 0)
        while true {
            let rows = try connection.rows(
                """
                SELECT \(JobRow.columns) FROM job WHERE position > ? AND position <= ? AND \(more)\(condition)
                ORDER BY position LIMIT 1000
                """, [.integer(position), .integer(last)] + values
            ) { JobRow($0) }
            guard let end = rows.last else { return count }
            position = end.record.position
            for row in rows { count += try body(row) }
        }
    }

    func cancel(_ selection: JobSelection) throws -> Int {
        try transaction {
            let count = try forEach(selection, and: "state IN (0, 1, 2, 3, 4, 6)") { row in
                try cancel(row.job.id)
            }
            // A notification also wakes callers of `drain`.
            if count > 0 { mustRing = true }
            return count
        }
    }

    func acknowledge(_ selection: JobSelection) throws -> Int {
        try transaction {
            try forEach(selection, and: "state = 4") { row in
                try end(row, as: .done)
                // Queues that had too many waiting results may claim jobs again.
                mustRing = true
                return 1
            }
        }
    }

    func delete(_ selection: JobSelection) throws -> Int {
        try transaction {
            var dependents: [String] = []
            let count = try forEach(selection, and: "state IN (5, 6, 7)") { row in
                if row.life.state == .dead {
                    dependents += try self.dependents(of: row.job.id)
                    try finished(row, .cancelled)
                }
                return try connection.run("DELETE FROM job WHERE id = ?", .text(row.job.id))
            }
            // Dependents are cancelled after the loop, which would otherwise delete them as cancelled jobs.
            for dependent in dependents { _ = try cancel(dependent) }
            return count
        }
    }

    func purge(_ age: Duration) throws -> Int {
        try transaction {
            try connection.run(
                """
                DELETE FROM job WHERE position IN
                    (SELECT position FROM job WHERE (state = 5 OR state = 7) AND finished <= ? LIMIT 5000)
                """, .integer(time.now - Int64(clamping: age)))
        }
    }

    func retry(_ selection: JobSelection) throws -> Int {
        try transaction {
            // The blocked dependents of a dead letter move to the end with it, so that they stay behind it in their
            // group.
            let (condition, values) = try condition(of: selection)
            let moved = try connection.rows(
                """
                WITH RECURSIVE moved(id, position) AS (
                    SELECT id, position FROM job WHERE state = 6\(condition)
                    UNION SELECT job.id, job.position FROM moved JOIN dependency ON dependency.needs = moved.id
                        JOIN job ON job.id = dependency.job WHERE job.state = 2)
                SELECT id FROM moved ORDER BY position
                """, values
            ) { $0.text(0) }
            let count = try connection.run(
                """
                UPDATE job SET state = 2, failure = NULL, attempt_count = 0, lapses = 0, finished = NULL,
                    due = CASE WHEN not_before > ?1 THEN not_before END, due_clock = ifnull(not_before > ?1, 0),
                    expires = CASE WHEN expires <= ?1 THEN NULL ELSE expires END WHERE state = 6\(condition)
                """, [.integer(time.date)] + values)
            for id in moved { try moveToEnd(id) }
            mustRing = count > 0
            return count
        }
    }

    /// The job is blocked first, because the move of another job may have unblocked it as the first of its group.
    private func moveToEnd(_ id: String) throws {
        try connection.run(
            """
            UPDATE job SET state = 2, position = (SELECT max(position) + 1 FROM job),
                behind = (grp IS NOT NULL) + 2 * (key IS NOT NULL) WHERE id = ?
            """, .text(id))
        guard let row = try row(of: id) else { return }
        try promote(row)
        try unblock(id)
    }

    // MARK: Cancelling, and effects on dependents

    private func row(of id: String) throws -> JobRow? {
        try connection.row("SELECT \(JobRow.columns) FROM job WHERE id = ?", .text(id)) { JobRow($0) }
    }

    /// Returns the number of cancelled jobs.
    func cancel(_ id: String) throws -> Int {
        var (ids, count) = ([id], 0)
        while let id = ids.popLast() {
            guard let row = try row(of: id) else { continue }
            var life = row.life
            guard life.handle(.cancelled) else { continue }
            ids += try dependents(of: row.job.id)
            try end(row, as: .cancelled)
            count += 1
        }
        return count
    }

    private func end(_ row: JobRow, as state: JobState, _ failure: String? = nil) throws {
        try connection.run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
        try connection.run(
            """
            UPDATE job SET state = ?1, owner = NULL, lapses = CASE WHEN ?1 = 7 THEN 0 ELSE lapses END, result = NULL,
                failure = ?2, due = NULL, finished = ?3, body = CASE WHEN ?1 = 6 THEN body END WHERE position = ?4
            """, .integer(JobRow.number(of: state)), SQLiteValue(failure), .integer(time.now),
            .integer(row.record.position))
        try finished(row, state)
    }

    func finished(_ row: JobRow, _ state: JobState) throws {
        if state == .done, row.hasDependents {
            let dependents = try dependents(of: row.job.id)
            try connection.run("DELETE FROM dependency WHERE needs = ?", .text(row.job.id))
            for dependent in dependents {
                try connection.run("UPDATE job SET missing = missing - 1 WHERE id = ?", .text(dependent))
                try unblock(dependent)
            }
        }
        if state == .cancelled {
            try connection.run("DELETE FROM dependency WHERE needs = ?1 OR job = ?1", .text(row.job.id))
        }
        if state != .dead, let body = row.body {
            if let file = row.bodyFile { removals.append(file) }
            try connection.run("DELETE FROM body WHERE number = ?", .integer(body))
        }
        try promote(row)
    }

    private func dependents(of id: String) throws -> [String] {
        try connection.rows("SELECT job FROM dependency WHERE needs = ?", [.text(id)]) { $0.text(0) }
    }

    private func promote(_ row: JobRow) throws {
        for (column, value, bit) in [("grp", row.job.group, Int64(1)), ("key", row.job.uniqueness?.key, 2)] {
            guard let value else { continue }
            let first = try connection.row(
                "SELECT id, behind FROM job WHERE \(column) = ? AND state <= 4 ORDER BY position LIMIT 1", .text(value)
            ) { row in (id: row.text(0) ?? "", behind: row.integer(1) ?? 0) }
            guard let first, first.behind & bit != 0 else { continue }
            try connection.run("UPDATE job SET behind = behind & ~? WHERE id = ?", .integer(bit), .text(first.id))
            try unblock(first.id)
        }
    }

    private func unblock(_ id: String) throws {
        let count = try connection.run(
            """
            UPDATE job SET state = CASE WHEN due IS NULL THEN 0 ELSE 1 END
            WHERE id = ? AND state = 2 AND missing = 0 AND behind = 0
            """, .text(id))
        if count > 0 { mustRing = true }
    }

    // MARK: Reading

    func job(_ id: String) throws -> JobRecord? { try records("id = ?", [.text(id)], areWhole: true).first }

    func jobs(_ selection: JobSelection, _ position: Int64, _ limit: Int) throws -> [JobRecord] {
        let (condition, values) = try condition(of: selection)
        return try records(
            "position > ?\(condition) ORDER BY position LIMIT ?",
            [.integer(position)] + values + [.integer(Int64(max(0, limit)))], areWhole: false)
    }

    private func records(_ condition: String, _ values: [SQLiteValue], areWhole: Bool) throws -> [JobRecord] {
        let rows = try connection.rows("SELECT \(JobRow.columns) FROM job WHERE \(condition)", values) { JobRow($0) }
        return try rows.map { row in
            let delay = row.due.map { max(0, $0 - (row.isDueByCalendar ? time.date : time.now)) } ?? 0
            var record = row.record
            record.attempts = JobText.attempts(of: row.attempts)
            record.delay = row.life.state == .waiting && delay > 0 ? .milliseconds(delay) : nil
            if areWhole { record.job.request.body = try body(of: row) }
            if let number = row.result { record.result = try result(number, isWhole: areWhole) }
            return record
        }
    }

    func body(of row: JobRow) throws -> JobRequest.Body? {
        guard let number = row.body else { return row.job.request.body }
        if let file = row.bodyFile { return .file(bodies.url(of: file)) }
        let text = "SELECT bytes FROM body WHERE number = ?"
        let data = try connection.row(text, .integer(number)) { $0.blob(0) ?? Data() }
        // Without its row, the body becomes a file that does not exist. The job then fails with an error that names the
        // file.
        return data.map { .data($0) } ?? .file(bodies.url(of: "body \(number)"))
    }

    func result(_ number: Int64, isWhole: Bool = true) throws -> JobResult? {
        let bytes = isWhole ? "bytes" : "NULL"
        return try connection.row(
            "SELECT status, fields, \(bytes), is_cut, failure FROM result WHERE number = ?", .integer(number)
        ) { row in
            JobResult(
                statusCode: row.integer(0).map(Int.init), headerFields: JobText.fields(of: row.text(1)),
                body: row.blob(2) ?? Data(), isBodyCut: row.integer(3) == 1, failure: row.text(4))
        }
    }

    func blockers(_ id: String) throws -> [JobBlocker] {
        try connection.rows(
            """
            WITH held AS (SELECT id, grp, key, behind FROM job WHERE id = ? AND state = 2)
            SELECT * FROM (SELECT job.id, job.state, 'dependency' FROM held
                CROSS JOIN dependency ON dependency.job = held.id CROSS JOIN job ON job.id = dependency.needs
                ORDER BY job.id LIMIT 98)
            UNION ALL SELECT job.id, job.state, 'group' FROM held CROSS JOIN job ON held.behind & 1 AND job.position =
                (SELECT min(position) FROM job WHERE grp = held.grp AND state <= 4)
            UNION ALL SELECT job.id, job.state, 'key' FROM held CROSS JOIN job ON held.behind & 2 AND job.position =
                (SELECT min(position) FROM job WHERE key = held.key AND state <= 4)
            """, [.text(id)]
        ) { row in
            JobBlocker(
                id: row.text(0) ?? "", state: JobRow.state(row.integer(1) ?? 0),
                reason: row.text(2).flatMap(JobBlocker.Reason.init) ?? .dependency)
        }
    }

    func status() throws -> QueueStatus {
        // A caller that only polls must also learn that the database file was moved or removed.
        try checkPlace()
        var counts: [String: [JobState: Int]] = [:]
        let tallies = try connection.rows(
            """
            SELECT kind, state, count FROM tally WHERE count > 0
            UNION ALL SELECT kind, 3, count(*) FROM job WHERE state = 3 GROUP BY kind
            """
        ) { ($0.text(0) ?? "", JobRow.state($0.integer(1) ?? 0), Int($0.integer(2) ?? 0)) }
        for (kind, state, count) in tallies {
            counts[kind, default: [:]][state, default: 0] += count
            // The table `tally` counts claimed jobs as waiting, so they are subtracted here.
            if state == .claimed { counts[kind, default: [:]][.waiting, default: 0] -= count }
        }
        return QueueStatus(counts: counts.mapValues { $0.filter { $0.value != 0 } })
    }

    func condition(of selection: JobSelection) throws -> (String, [SQLiteValue]) {
        var (text, values) = ("", [SQLiteValue]())
        if let ids = selection.ids {
            text += " AND id IN \(Self.listed)"
            values.append(Self.list(ids.filter(Self.isStorable)))
        }
        if let states = selection.states {
            var numbers = states.map { JobRow.number(of: $0) }
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
