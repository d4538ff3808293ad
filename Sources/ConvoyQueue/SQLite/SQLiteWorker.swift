// The work of the SQLite store with its database, on the store's serial queue.
import Convoy
import Foundation

/// The connection of a store, and the files beside the database.
final class SQLiteWorker: @unchecked Sendable {
    // @unchecked: made by one thread, and then used on the serial queue of its store only.
    let owners: SQLiteOwners
    let bodies: SQLiteBodies
    private(set) var time: SQLiteTime
    private var open: SQLiteConnection?
    /// Body files to remove after the commit.
    var removals: [String] = []
    /// Owners that no longer exist and whose leases this transaction has ended.
    ///
    /// Their lock files are removed after the commit.
    private var ended: [String] = []
    /// Whether to notify queues after the commit, for example because a job may have become claimable.
    var mustRing = false
    /// When `releaseGone` last searched for owners that no longer exist.
    var lastLook: ContinuousClock.Instant?

    init(file: URL, clock: any RequestClock, boot: String) throws(QueueError) {
        time = SQLiteTime(clock: clock)
        let file = Self.withoutLinks(file)
        let connection = try SQLiteConnection(at: file)
        // The file may belong to another program, so it is checked before the directory is created.
        try SQLiteSchema.prepare(connection)
        let directory = URL(fileURLWithPath: file.path + "-convoy")
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
        connection.watchPlace()
        do throws(QueueError) { try start(connection, boot: boot) } catch {
            // The owner has no row yet, so no other process needs its lock file.
            owners.close()
            throw error
        }
    }

    private func start(_ connection: SQLiteConnection, boot: String) throws(QueueError) {
        let isNewBoot = try connection.transaction { () throws(QueueError) in
            try time.anchor(in: connection, boot: boot)
        }
        try transaction { () throws(QueueError) in
            if isNewBoot { try endLeases("1 = ?", .integer(1)) }
            try releaseGone()
        }
        try removeOrphans()
    }

    /// The path without symbolic links, as SQLite resolves it.
    ///
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

    func connection() throws(QueueError) -> SQLiteConnection {
        guard let open else { throw QueueError(.closed, "the store was closed before") }
        return open
    }

    func takeRing() -> Bool {
        defer { mustRing = false }
        return mustRing
    }

    /// Runs a transaction.
    ///
    /// After the commit, the method removes the files in `removals` and the lock files of `ended`.
    func transaction<Value>(_ body: () throws(QueueError) -> Value) throws(QueueError) -> Value {
        (removals, ended) = ([], [])
        let value: Value
        do throws(QueueError) { value = try connection().transaction(body) } catch {
            (removals, ended) = ([], [])
            mustRing = false
            throw error
        }
        bodies.remove(removals)
        owners.remove(ended)
        (removals, ended) = ([], [])
        return value
    }

    func close() throws(QueueError) {
        guard open != nil else { return }
        var isReleased = false
        defer {
            open = nil
            owners.close(isReleased: isReleased)
        }
        try release()
        isReleased = true
        try transaction { () throws(QueueError) in try time.note(in: connection()) }
    }

    // MARK: Owners

    func renew(_ claims: [Claim], _ lease: Duration) throws(QueueError) -> [Claim] {
        try transaction { () throws(QueueError) in
            try releaseEnded()
            try takeLease(lease)
            try time.note(in: connection())
            var lost: [Claim] = []
            for claim in claims {
                let held = try connection().number(
                    "SELECT 1 FROM job WHERE id = ? AND state = 3 AND owner = ? AND claims = ?", .text(claim.id),
                    .text(owners.name), .integer(claim.token))
                if held == nil { lost.append(claim) }
            }
            return lost
        }
    }

    func takeLease(_ lease: Duration) throws(QueueError) {
        try connection().checkPlace()
        owners.restore()
        try connection().run(
            "INSERT OR REPLACE INTO owner VALUES(?, ?)", .text(owners.name),
            .integer(time.now + Int64(clamping: lease)))
    }

    func release() throws(QueueError) {
        try transaction { () throws(QueueError) in try endLeases("name = ?", .text(owners.name)) }
    }

    /// Releases the jobs of other owners whose lease has ended.
    func releaseEnded() throws(QueueError) {
        let hasEnded = "name <> '\(owners.name)' AND ends <= ?"
        let ended = try connection().number("SELECT 1 FROM owner WHERE \(hasEnded) LIMIT 1", .integer(time.now))
        if ended != nil { try endLeases(hasEnded, .integer(time.now)) }
    }

    /// Releases the jobs of owners that no longer exist.
    ///
    /// Returns whether such owners were found.
    @discardableResult
    func releaseGone() throws(QueueError) -> Bool {
        lastLook = .now
        let names = try connection().rows("SELECT name FROM owner") { row throws(QueueError) in row.text(0) ?? "" }
        let gone = names.filter { owners.isGone($0) }
        for name in gone { try endLeases("name = ?", .text(name)) }
        ended += gone
        return !gone.isEmpty
    }

    /// Ends the leases of the owners that meet a condition, and releases the jobs that they have claimed.
    ///
    /// Claims of other owners count as lapsed. The claims of this instance are released without a lapse.
    private func endLeases(_ condition: String, _ value: SQLiteValue) throws(QueueError) {
        // As in ``JobLife/lapseDelay``: from the second lapse on, a job waits 1, 2, 4 and so on up to 64 seconds.
        let waits = "result IS NULL AND lapses > 0 AND owner <> '\(owners.name)'"
        let count = try connection().run(
            """
            UPDATE job SET owner = NULL, lapses = lapses + (owner <> '\(owners.name)'), due_clock = 0,
                due = CASE WHEN \(waits) THEN \(time.now) + (1000 << min(6, lapses - 1)) END,
                state = CASE WHEN result IS NOT NULL THEN 4 WHEN \(waits) THEN 1 ELSE 0 END
            WHERE state = 3 AND owner IN (SELECT name FROM owner WHERE \(condition))
            """, value)
        try connection().run("DELETE FROM owner WHERE \(condition)", value)
        if count > 0 { mustRing = true }
    }

    /// Removes leftovers of crashes: files without a row, and unused lock files.
    private func removeOrphans() throws(QueueError) {
        var orphans: [String] = []
        for name in bodies.abandoned({ owners.isGone($0, isMissingGone: true) }) {
            let row = try connection().number("SELECT 1 FROM body WHERE file = ? LIMIT 1", .text(name))
            if row == nil { orphans.append(name) }
        }
        bodies.remove(orphans)
        // The lock file of an owner with a row stays until its leases have ended.
        for name in owners.all where owners.isGone(name) {
            let row = try connection().number("SELECT 1 FROM owner WHERE name = ?", .text(name))
            if row == nil { owners.remove([name]) }
        }
    }
}
