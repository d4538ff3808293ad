// Adding jobs.
import Convoy
import Foundation

extension SQLiteWorker {
    func add(_ jobs: [Job]) throws(QueueError) -> [JobAddition] { try add([jobs])[0].get() }

    /// Adds the lists of several callers in one transaction.
    ///
    /// Returns the outcome of each list.
    func add(_ lists: [[Job]]) -> [AdditionGroup.Outcome] {
        // For each list, the names of its body files by the index of the job.
        var files: [Result<[Int: String], QueueError>] = []
        for list in lists { files.append(Result { () throws(QueueError) in try writeBodies(of: list) }) }
        let names = files.flatMap { (try? $0.get().values.map { $0 }) ?? [] }
        do throws(QueueError) {
            if !names.isEmpty { try bodies.sync() }
            let outcomes = try transaction { () throws(QueueError) in
                var outcomes: [AdditionGroup.Outcome] = []
                for (list, files) in zip(lists, files) {
                    let removals = removals
                    outcomes.append(
                        try part(isAlone: lists.count == 1) { () throws(QueueError) in try insert(list, files.get()) })
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
            let isUnknown = error.code == .failed || (try? connection().isCommitUnknown) ?? false
            if !isUnknown { bodies.remove(names) }
            // One list may be too large for the disk, so each list is tried alone.
            if error.code == .diskFull, !isUnknown, lists.count > 1 { return lists.flatMap { add([$0]) } }
            return lists.map { _ in .failure(error) }
        }
    }

    private func part(
        isAlone: Bool, _ body: () throws(QueueError) -> [JobAddition]
    ) throws(QueueError) -> AdditionGroup.Outcome {
        isAlone ? .success(try body()) : try connection().part(body)
    }

    private func writeBodies(of jobs: [Job]) throws(QueueError) -> [Int: String] {
        var files: [Int: String] = [:]
        do throws(QueueError) {
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

    private func insert(_ jobs: [Job], _ files: [Int: String]) throws(QueueError) -> [JobAddition] {
        var next = (try connection().number("SELECT max(position) FROM job") ?? 0) + 1
        var additions: [JobAddition] = []
        additions.reserveCapacity(jobs.count)
        for (index, job) in jobs.enumerated() {
            let addition = try add(job, at: next, bodyFile: files[index])
            if addition.outcome == .added { next += 1 }
            additions.append(addition)
        }
        return additions
    }

    private func add(_ job: Job, at position: Int64, bodyFile: String?) throws(QueueError) -> JobAddition {
        let connection = try connection()
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
        let (body, path) = isCancelled ? (nil, nil) : try keepBody(of: job, at: position, bodyFile)
        if isCancelled, let bodyFile { removals.append(bodyFile) }
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
                SQLiteValue(body), SQLiteValue(path), SQLiteValue(job.request.destination?.path),
                .text(job.idempotencyKey), .integer(time.date), isCancelled ? .integer(time.now) : .null,
                .integer(job.request.followsRedirectsAsGet ? 1 : 0), .text(job.request.host),
            ])
        for id in missing ?? [] {
            try connection.run("INSERT INTO dependency(needs, job) VALUES(?, ?)", .text(id), .text(job.id))
        }
        return JobAddition(id: job.id, outcome: .added)
    }

    /// The dependencies of a new job that are not done; nil if one was cancelled.
    private func missing(of job: Job) throws(QueueError) -> Set<String>? {
        var missing: Set<String> = []
        var isCancelled = false
        for id in job.dependencies {
            switch try connection().number("SELECT state FROM job WHERE id = ?", .text(id)) {
            case nil: throw QueueError(.unknownJob, "\(job.id.shownID) depends on \(id.shownID), which does not exist")
            case 5: break
            case 7: isCancelled = true
            default: missing.insert(id)
            }
        }
        return isCancelled ? nil : missing
    }

    /// Cancels the jobs that this job replaces, or returns the id of an existing job to keep instead.
    private func applyUniqueness(of job: Job) throws(QueueError) -> String? {
        guard let uniqueness = job.uniqueness, uniqueness.policy != .append else { return nil }
        let others = try connection().rows(
            "SELECT id FROM job WHERE key = ? AND state <= 4 ORDER BY position", [.text(uniqueness.key)]
        ) { row throws(QueueError) in row.text(0) ?? "" }
        if uniqueness.policy == .keep { return others.first }
        for other in others { _ = try cancel(other) }
        return nil
    }

    private func hasUnfinished(_ column: String, _ value: String) throws(QueueError) -> Bool {
        try connection().number("SELECT 1 FROM job WHERE \(column) = ? AND state <= 4 LIMIT 1", .text(value)) != nil
    }

    /// Saves the body, and returns the number of its row or the path of the caller's file.
    private func keepBody(
        of job: Job, at position: Int64, _ file: String?
    ) throws(QueueError) -> (Int64?, String?) {
        switch job.request.body {
        case nil: return (nil, nil)
        case .file(let url): return (nil, url.path)
        case .data(let data):
            try connection().run(
                "INSERT INTO body VALUES(?, ?, ?)", .integer(position), file == nil ? .blob(data) : .null,
                SQLiteValue(file))
            return (position, nil)
        }
    }
}
