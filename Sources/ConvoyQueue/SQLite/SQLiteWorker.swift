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
        do { try start(boot: boot) } catch {
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

    private func start(boot: String) throws {
        let isNewBoot = try transaction { try time.anchor(in: connection, boot: boot) }
        try transaction {
            if isNewBoot { try endLeases("1 = ?", .integer(1)) }
            try releaseGone()
        }
        try removeOrphans()
    }

    /// Processes that open a database by different names must use the same lock files.
    private static func withoutLinks(_ file: URL) -> URL {
        guard let path = realpath(file.path, nil) else {
            guard let directory = realpath(file.deletingLastPathComponent().path, nil) else { return file }
            defer { free(directory) }
            return URL(fileURLWithPath: String(cString: directory)).appending(path: file.lastPathComponent)
        }
        defer { free(path) }
        return URL(fileURLWithPath: String(cString: path))
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

    /// Returns the outcome of each list.
    func add(_ lists: [[Job]]) -> [AdditionGroup.Outcome] {
        let files = lists.map { list in result { try $0.writeBodies(of: list) } }
        let names = files.flatMap { (try? $0.get().values.map { $0 }) ?? [] }
        do {
            if !names.isEmpty { try bodies.sync() }
            let outcomes = try transaction {
                var outcomes: [AdditionGroup.Outcome] = []
                for (list, files) in zip(lists, files) {
                    let removals = removals
                    if lists.count == 1 {
                        outcomes.append(.success(try insert(list, files.get())))
                    } else {
                        let outcome = try connection.part { try insert(list, files.get()) }
                        outcomes.append(outcome.mapError { QueueError($0, of: path) })
                    }
                    if case .failure = outcomes.last { self.removals = removals }
                }
                return outcomes
            }
            for (outcome, files) in zip(outcomes, files) { removeUnused(files, outcome) }
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
                guard case .data(let data)? = job.request.body, data.count > SQLiteBodies.rowLimit else { continue }
                files[index] = try bodies.write(data)
            }
            return files
        } catch {
            bodies.remove(Array(files.values))
            throw error
        }
    }

    private func removeUnused(_ files: Result<[Int: String], QueueError>, _ outcome: AdditionGroup.Outcome) {
        guard case .success(let files) = files, !files.isEmpty else { return }
        switch outcome {
        case .success(let additions): bodies.remove(files.filter { additions[$0.key].outcome != .added }.map(\.value))
        case .failure: bodies.remove(Array(files.values))
        }
    }

    private func insert(_ jobs: [Job], _ files: [Int: String]) throws -> [JobAddition] {
        var next = (try connection.number("SELECT max(position) FROM job") ?? 0) + 1
        var additions: [JobAddition] = []
        additions.reserveCapacity(jobs.count)
        for (index, job) in jobs.enumerated() {
            let addition = try add(job, at: next, bodyFile: files[index])
            if addition.outcome == .added { next += 1 }
            additions.append(addition)
        }
        return additions
    }

    private func add(_ job: Job, at position: Int64, bodyFile: String?) throws -> JobAddition {
        let connection = try self.connection
        let here = try connection.number("SELECT 1 FROM job WHERE id = ?", .text(job.id))
        if here != nil { return JobAddition(id: job.id, outcome: .alreadyThere) }
        var missing = try missing(of: job)
        if let kept = try applyUniqueness(of: job) { return JobAddition(id: kept, outcome: .kept) }
        // The replaced job is cancelled now. It may be a dependency of the new job.
        if job.uniqueness?.policy == .replace { missing = try self.missing(of: job) }

        var behind: Int64 = 0
        if let group = job.group, try hasUnfinished("grp", group) { behind |= 1 }
        if let key = job.uniqueness?.key, try hasUnfinished("key", key) { behind |= 2 }
        let notBefore = job.notBefore.map { Int64(clamping: $0) }
        let due = notBefore.flatMap { $0 > time.date ? $0 : nil }
        let isCancelled = missing == nil
        let state: Int64 =
            isCancelled ? 7 : missing?.isEmpty == false || behind != 0 ? 2 : due == nil ? 0 : 1
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

    private func applyUniqueness(of job: Job) throws -> String? {
        guard let uniqueness = job.uniqueness, uniqueness.policy != .append else { return nil }
        let others = try connection.rows(
            "SELECT id FROM job WHERE key = ? AND state <= 4 ORDER BY position", [.text(uniqueness.key)]
        ) { $0.text(0) }
        if uniqueness.policy == .keep { return others.first }
        for other in others { _ = try cancel(other) }
        return nil
    }

    private func hasUnfinished(_ column: String, _ value: String) throws -> Bool {
        try connection.number("SELECT 1 FROM job WHERE \(column) = ? AND state <= 4 LIMIT 1", .text(value)) != nil
    }

    // MARK: Settling and exchanging

    func exchange(_ settlements: [Settlement], _ request: ClaimRequest?) throws -> Exchange {
        try transaction {
            var isSettled: [Bool] = []
            for settlement in settlements { isSettled.append(try settle(settlement)) }
            if settlements.contains(where: { if case .retry = $0.verdict { true } else { false } }) {
                try time.note(in: connection)
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

    /// Settles a job that is done at the first attempt, without body, group, key or dependents.
    private static let simplyDone = """
        UPDATE job SET state = 5, owner = NULL, due = NULL, due_clock = 0, attempt_count = attempt_count + 1, attempts = ?,
            finished = ?, lapses = 0
        WHERE id = ? AND state = 3 AND owner = ? AND claims = ? AND attempts IS NULL AND result IS NULL AND body IS NULL
            AND grp IS NULL AND key IS NULL AND NOT EXISTS (SELECT 1 FROM dependency WHERE needs = job.id)
        """

    private static let settled = "SELECT \(LifeRow.columns), attempt_count, attempts, failure FROM job WHERE id = ?"

    private func settle(_ settlement: Settlement) throws -> Bool {
        let claim = settlement.claim
        if case .done = settlement.verdict, let attempt = settlement.attempt {
            let count = try connection.run(
                Self.simplyDone, SQLiteValue(JobText.attempts([attempt])), .integer(time.now), .text(claim.id),
                .text(owners.name), .integer(claim.token))
            if count > 0 { return true }
        }
        let row = try connection.row(Self.settled, .text(claim.id)) { row in
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
            try connection.run("DELETE FROM result WHERE number = ?", .integer(number))
            result = nil
        }
        if due.map({ $0 <= time.now }) ?? false { due = nil }
        let isDue = life.state == .waiting && due != nil
        // A blocked job that expires is passed to its handler. If the handler retries it, the job is blocked again (2),
        // because `missing` and `behind` are unchanged.
        try connection.run(
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
    private static let portion: Int64 = 1_000

    func makeDue() throws {
        for (clock, now) in [(Int64(0), time.now), (1, time.date)] {
            try connection.run(
                """
                UPDATE job SET state = 0, due = NULL, due_clock = 0 WHERE position IN
                    (SELECT position FROM job WHERE state = 1 AND due_clock = ? AND due <= ? ORDER BY due LIMIT ?)
                """, .integer(clock), .integer(now), .integer(Self.portion))
        }
    }

    /// Expired jobs of the given kinds wait for their handler instead.
    func expire(telling kinds: ClaimRequest.Kinds) throws {
        let hasExpired = "expires IS NOT NULL AND state <= 2 AND expires <= ?"
        if kinds != .only([]) {
            let (condition, values) = Self.condition(kinds)
            let positions = try connection.rows(
                "SELECT position FROM job WHERE \(hasExpired)\(condition) ORDER BY expires LIMIT ?",
                [.integer(time.date)] + values + [.integer(Self.portion)]
            ) { $0.integer(0) }
            for position in positions {
                let result = try keep(JobResult(failure: JobRecord.expired))
                try connection.run(
                    "UPDATE job SET state = 4, due = NULL, result = ? WHERE position = ?", .integer(result),
                    .integer(position))
            }
        }
        let (condition, values) = Self.condition(kinds.others)
        if kinds != .all { try end(hasExpired + condition, [.integer(time.date)] + values, JobRecord.expired) }
    }

    func claim(_ request: ClaimRequest) throws -> [ClaimedJob] {
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

    private func claimReady(_ request: ClaimRequest, _ limit: Int) throws -> [ClaimedJob] {
        let ready = "state = 0 AND lapses < 2"
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
        var rows: [JobRow] = []
        for (marks, values) in Self.portions(of: first) {
            rows += try connection.rows(
                "SELECT \(JobRow.columns) FROM job WHERE position IN (\(marks)) ORDER BY \(Self.order)", values
            ) { JobRow($0) }
        }
        let jobs = try take(rows)
        // Claims other jobs instead of unreadable ones. A result below the limit would mean that no more jobs are
        // ready.
        return jobs.count == rows.count ? jobs : jobs + (try claimReady(request.rest(after: jobs), limit - jobs.count))
    }

    /// Returns no more positions of a host than the request allows, in the order of sending.
    private func fillRooms(
        _ request: ClaimRequest, _ limit: Int, _ ready: String
    ) throws -> [Int64] {
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
        for row in rows where row.defect != nil { try end("position = ?", [.integer(row.position)], row.defect) }
        let readable = rows.filter { $0.defect == nil }
        for (marks, values) in Self.portions(of: readable.map(\.position)) {
            try connection.run(
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
                    claim: Claim(id: job.id, token: row.life.claimCount + 1), job: job, attemptCount: row.attemptCount,
                    lapseCount: row.life.lapseCount,
                    result: try row.result.flatMap { number throws in try result(number) }))
        }
        return jobs
    }

    /// The condition must exclude claimed jobs.
    private func end(_ condition: String, _ values: [SQLiteValue], _ failure: String?) throws {
        let rows = try connection.rows(
            "SELECT \(LifeRow.columns) FROM job WHERE \(condition) ORDER BY expires LIMIT ?",
            values + [.integer(Self.portion)]
        ) { LifeRow($0) }
        for row in rows { try end(row, as: .dead, failure) }
    }

    // Portions have only a few sizes and are padded with NULLs, because the connection caches a statement for each
    // size. SQLite before 3.32 accepts at most 999 parameters.
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
    private func forEach(
        _ selection: JobSelection, and more: String, _ body: (LifeRow) throws -> Int
    ) throws -> Int {
        let (condition, values) = try condition(of: selection)
        // The loop visits only positions that exist now, so that it would end even if `body` added rows.
        let last = try connection.number("SELECT max(position) FROM job") ?? 0
        var (position, count) = (Int64(0), 0)
        while true {
            let rows = try connection.rows(
                """
                SELECT \(LifeRow.columns) FROM job WHERE position > ? AND position <= ? AND \(more)\(condition)
                ORDER BY position LIMIT 1000
                """, [.integer(position), .integer(last)] + values
            ) { LifeRow($0) }
            guard let end = rows.last else { return count }
            position = end.position
            for row in rows { count += try body(row) }
        }
    }

    func cancel(_ selection: JobSelection) throws -> Int {
        try transaction {
            let count = try forEach(selection, and: "state IN (0, 1, 2, 3, 4, 6)") { row in
                try cancel(row.id)
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
                    dependents += try self.dependents(of: row.id)
                    try finished(row, .cancelled)
                }
                return try connection.run("DELETE FROM job WHERE id = ?", .text(row.id))
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
            var moved: [String: Int64] = [:]
            let count = try forEach(selection, and: "state = 6") { row in
                moved[row.id] = row.position
                var ids = [row.id]
                while let id = ids.popLast() {
                    try connection.forEachRow(
                        """
                        SELECT job.id, job.position FROM dependency JOIN job ON job.id = dependency.job
                        WHERE dependency.needs = ? AND job.state = 2
                        """, [.text(id)]
                    ) { row in
                        let id = row.text(0) ?? ""
                        if moved.updateValue(row.integer(1) ?? 0, forKey: id) == nil { ids.append(id) }
                        return true
                    }
                }
                return try connection.run(
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

    private func row(of id: String) throws -> LifeRow? {
        try connection.row("SELECT \(LifeRow.columns) FROM job WHERE id = ?", .text(id)) { LifeRow($0) }
    }

    /// Returns the number of cancelled jobs.
    func cancel(_ id: String) throws -> Int {
        var (ids, count) = ([id], 0)
        while let id = ids.popLast() {
            guard let row = try row(of: id) else { continue }
            var life = row.life
            guard life.handle(.cancelled) else { continue }
            ids += try dependents(of: row.id)
            try end(row, as: .cancelled)
            count += 1
        }
        return count
    }

    private func end(_ row: LifeRow, as state: JobState, _ failure: String? = nil) throws {
        try connection.run("DELETE FROM result WHERE number = ?", SQLiteValue(row.result))
        try connection.run(
            """
            UPDATE job SET state = ?1, owner = NULL, lapses = CASE WHEN ?1 = 7 THEN 0 ELSE lapses END, result = NULL,
                failure = ?2, due = NULL, finished = ?3, body = CASE WHEN ?1 = 6 THEN body END WHERE position = ?4
            """, .integer(LifeRow.number(of: state)), SQLiteValue(failure), .integer(time.now), .integer(row.position))
        try finished(row, state)
    }

    func finished(_ row: LifeRow, _ state: JobState) throws {
        if state == .done, row.hasDependents { try releaseDependents(of: row.id) }
        if state == .cancelled {
            try connection.run("DELETE FROM dependency WHERE needs = ? OR job = ?", .text(row.id), .text(row.id))
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

    private func releaseDependents(of id: String) throws {
        let dependents = try dependents(of: id)
        guard !dependents.isEmpty else { return }
        try connection.run("DELETE FROM dependency WHERE needs = ?", .text(id))
        for dependent in dependents {
            try connection.run("UPDATE job SET missing = missing - 1 WHERE id = ?", .text(dependent))
            try unblock(dependent)
        }
    }

    private func promote(_ row: LifeRow) throws {
        for (column, value, bit) in [("grp", row.group, Int64(1)), ("key", row.key, 2)] {
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

    func job(_ id: String) throws -> JobRecord? {
        let row = try connection.row("SELECT \(JobRow.columns) FROM job WHERE id = ?", .text(id)) { JobRow($0) }
        guard let row else { return nil }
        var record = record(row)
        record.job.request.body = try body(of: row)
        if let number = row.result { record.result = try result(number) }
        return record
    }

    func jobs(_ selection: JobSelection, _ position: Int64, _ limit: Int) throws -> [JobRecord] {
        let (condition, values) = try condition(of: selection)
        let rows = try connection.rows(
            "SELECT \(JobRow.columns) FROM job WHERE position > ?\(condition) ORDER BY position LIMIT ?",
            [.integer(position)] + values + [.integer(Int64(max(0, limit)))]
        ) { JobRow($0) }
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

    func body(of row: JobRow) throws -> JobRequest.Body? {
        guard let number = row.body else { return row.job.request.body }
        let body: JobRequest.Body? = try connection.row(
            "SELECT bytes, file FROM body WHERE number = ?", .integer(number)
        ) { row in
            row.text(1).map { .file(bodies.url(of: $0)) } ?? .data(row.blob(0) ?? Data())
        }
        // Without its row, the body becomes a file that does not exist. The job then fails with an error that names the
        // file.
        return body ?? .file(bodies.url(of: "body \(number)"))
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
                id: row.text(0) ?? "", state: LifeRow.state(row.integer(1) ?? 0),
                reason: row.text(2).flatMap(JobBlocker.Reason.init) ?? .dependency)
        }
    }

    func status() throws -> QueueStatus {
        // A caller that only polls must also learn that the database file was moved or removed.
        try checkPlace()
        var counts: [String: [JobState: Int]] = [:]
        try connection.forEachRow(
            """
            SELECT kind, state, count FROM tally WHERE count > 0
            UNION ALL SELECT kind, 3, count(*) FROM job WHERE state = 3 GROUP BY kind
            """
        ) { row in
            let (kind, state) = (row.text(0) ?? "", LifeRow.state(row.integer(1) ?? 0))
            let count = Int(row.integer(2) ?? 0)
            counts[kind, default: [:]][state, default: 0] += count
            // The table `tally` counts claimed jobs as waiting, so they are subtracted here.
            if state == .claimed { counts[kind, default: [:]][.waiting, default: 0] -= count }
            return true
        }
        return QueueStatus(counts: counts.mapValues { $0.filter { $0.value != 0 } })
    }

    func condition(of selection: JobSelection) throws -> (String, [SQLiteValue]) {
        var (text, values) = ("", [SQLiteValue]())
        if let ids = selection.ids {
            try connection.execute("CREATE TEMP TABLE IF NOT EXISTS wanted(id TEXT PRIMARY KEY); DELETE FROM wanted")
            for id in ids { try connection.run("INSERT INTO wanted VALUES(?)", .text(id)) }
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
