import Convoy
import ConvoySQLite
import Foundation

struct CacheDirectory: Sendable {
    let path: String
    var mostLockWait = Duration.seconds(2)

    var index: String { path + "/convoy-cache.sqlite" }
    var bodies: String { path + "/convoy-cache-bodies" }
    // The directory has the bodies that the index does not list yet, or no longer. A writer locks its file (`flock`)
    // until the index lists it; the kernel releases the lock of a killed process.
    var parts: String { path + "/convoy-cache-parts" }

    func body(_ name: String) -> String { bodies + "/" + name }
    func part(_ name: String) -> String { parts + "/" + name }

    /// Another user could forge an index, and so choose the files that the cache serves and removes.
    var isForeign: Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_uid != geteuid()
    }

    // Only the owner gets access. Missing parent directories get the default permissions; an existing directory keeps
    // its own.
    func make() {
        let parent = (path as NSString).deletingLastPathComponent
        try? FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        mkdir(path, 0o700)
        guard !isForeign else { return }
        mkdir(bodies, 0o700)
        mkdir(parts, 0o700)
    }

    // Nil if locking times out. The digest has a random key if another user owns the directory, or if the key file
    // cannot be used.
    var digest: KeyedDigest? {
        let file = path + "/convoy-cache.key"
        let count = KeyedDigest.keyBytes
        let kept = {
            StoredFile(path: file, byteCount: Int64(count))?.read(at: 0, count: count).flatMap(KeyedDigest.init(key:))
        }
        guard !isForeign else { return KeyedDigest() }
        if let digest = kept() { return digest }
        make()
        return try? locked {
            if let digest = kept() { return digest }
            // The file is renamed into place, because other processes read it without the lock.
            let (digest, fresh) = (KeyedDigest(), file + ".new")
            unlink(fresh)
            let descriptor = Foundation.open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return digest }
            defer { close(descriptor) }
            let written = digest.key.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if written == count { rename(fresh, file) } else { unlink(fresh) }
            return digest
        }
    }

    func empty() {
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(index + suffix) }
        for folder in [bodies, parts] {
            for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
                unlink(folder + "/" + name)
            }
        }
    }

    /// Throws ``SQLiteError/busy`` after ``mostLockWait``; the caller then works without the cache.
    func locked<Value>(_ work: () throws -> Value) throws -> Value {
        let flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW
        let descriptor = Foundation.open(path + "/convoy-cache.lock", flags, 0o600)
        defer {
            if descriptor >= 0 {
                // A forked child that has not called `exec` yet shares the descriptor, and so the lock.
                flock(descriptor, LOCK_UN)
                close(descriptor)
            }
        }
        if descriptor >= 0, !takeLock(descriptor) { throw SQLiteError(code: SQLiteError.busy) }
        return try work()
    }

    /// Returns false after ``mostLockWait``.
    private func takeLock(_ descriptor: Int32) -> Bool {
        let end = ContinuousClock.now + mostLockWait
        var pause: UInt32 = 500
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            // A file system without locks fails at once. The work then runs without a lock.
            guard errno == EWOULDBLOCK || errno == EINTR else { return true }
            guard ContinuousClock.now < end else { return false }
            usleep(pause)
            pause = min(pause * 2, 50_000)
        }
        return true
    }

    // Cleans up after a killed process: a part that the index lists becomes a body; others are removed, except those
    // that a writer has locked. `isNamed` returns nil if the query fails.
    func sweep(isNamed: (String) -> Bool?) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parts)) ?? [] {
            let descriptor = StoredFile.openRegular(part(name))
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // If another descriptor has the lock, a writer still uses the part.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { continue }
            switch isNamed(name) {
            case true: settle(name)
            case false: unlink(part(name))
            case nil: break
            }
        }
    }

    func makePart(_ name: String) -> Int32 {
        guard !isForeign else { return -1 }
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
        var descriptor = Foundation.open(part(name), flags, 0o600)
        if descriptor < 0, errno == ENOENT {
            make()
            descriptor = Foundation.open(part(name), flags, 0o600)
        }
        guard descriptor >= 0 else { return -1 }
        var status = stat()
        // A sweep may have removed the part before it was locked.
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0, status.st_nlink > 0 {
            return descriptor
        }
        close(descriptor)
        unlink(part(name))
        return -1
    }

    func settle(_ name: String) { rename(part(name), body(name)) }

    /// Opens a body or a part that the index lists; nil if the file is missing or has another length.
    func open(_ name: String, byteCount: Int64) -> StoredFile? {
        // Another process may move the part between the first two attempts.
        for path in [body(name), part(name), body(name)] {
            if let file = StoredFile(path: path, byteCount: byteCount) { return file }
        }
        return nil
    }

    // Called before the commit that removes the entry; afterwards ``remove(_:)`` removes the file. If the process is
    // killed in between, a sweep removes the file, or moves it back if its entry still exists.
    func release(_ name: String) { rename(body(name), part(name)) }

    // The part is unlinked first. Otherwise a sweep could move it to the bodies after the body was unlinked.
    func remove(_ name: String) {
        unlink(part(name))
        unlink(body(name))
    }

    // 0 if the index is missing. The number changes when another file replaces the index.
    var indexNumber: UInt64 {
        var status = stat()
        return stat(index, &status) == 0 ? UInt64(status.st_ino) : 0
    }
}

extension SQLiteError {
    static let otherSchema: Int32 = -1
    static let busy: Int32 = 5
    static let corrupt: Int32 = 11
    static let cannotOpen: Int32 = 14

    /// The write-ahead log is shorter than the connection expects: another process truncated it while it was open.
    private static let shortRead: Int32 = 10 | 2 << 8

    /// A constraint violation (19) means that the identifier of a new entry already exists, so the totals are damaged.
    static func isDamage(_ error: any Error) -> Bool {
        guard let code = (error as? SQLiteError)?.code else { return false }
        return [otherSchema, shortRead].contains(code) || [corrupt, 19, 26].contains(code & 0xFF)
    }
}

extension SQLiteRow {
    /// A damaged or forged index could name a file outside the directory.
    func fileName(_ column: Int32) -> String? {
        text(column).flatMap { UUID(uuidString: $0) == nil ? nil : $0 }
    }
}

extension SQLiteConnection {
    // An index with another version is removed. Version 3 has entries that earlier builds stored wrongly. Version 4
    // has no credentials except `Authorization`.
    static let schemaVersion: Int64 = 5

    // Holds the lock between processes: without it, a process that removes the index could also remove the log of a
    // new index, whose later changes no other process would see. If `mayEmpty` is false, a damaged index throws
    // instead of being removed.
    static func index(
        in directory: CacheDirectory, busyMilliseconds: Int32, mayEmpty: Bool
    ) throws -> (SQLiteConnection, wasEmptied: Bool) {
        directory.make()
        guard !directory.isForeign else { throw SQLiteError(code: SQLiteError.cannotOpen) }
        return try directory.locked {
            do {
                return (try opened(directory, busyMilliseconds), false)
            } catch {
                guard SQLiteError.isDamage(error), mayEmpty else { throw error }
                directory.empty()
                return (try opened(directory, busyMilliseconds), true)
            }
        }
    }

    private static func opened(_ directory: CacheDirectory, _ busyMilliseconds: Int32) throws -> SQLiteConnection {
        let database = try SQLiteConnection(directory.index, busyMilliseconds: busyMilliseconds)
        // SQLite does not sync. After a system crash, the digests detect damage.
        try database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA journal_size_limit = 4194304")
        database.keepLog()
        // SQLite's cache is small (512 KiB), because the system's page cache has the same pages.
        try database.execute("PRAGMA cache_size = -512")
        let version = try database.number("PRAGMA user_version") ?? 0
        if version == schemaVersion { return database }
        let tables = try database.number("SELECT count(*) FROM sqlite_master") ?? 0
        guard version == 0, tables == 0 else { throw SQLiteError(code: SQLiteError.otherSchema) }
        try database.transaction {
            // Another process may have created the schema first.
            guard try database.number("PRAGMA user_version") == 0 else { return }
            try database.execute(
                """
                CREATE TABLE entries (
                    id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, head BLOB NOT NULL, body BLOB, file TEXT,
                    bytes INTEGER NOT NULL);
                CREATE INDEX entries_hash ON entries (hash);
                CREATE INDEX entries_file ON entries (file) WHERE file IS NOT NULL;
                CREATE TABLE uses (id INTEGER PRIMARY KEY, used INTEGER NOT NULL);
                CREATE INDEX uses_used ON uses (used);
                CREATE TABLE totals (bytes INTEGER NOT NULL, entries INTEGER NOT NULL, used INTEGER NOT NULL);
                INSERT INTO totals VALUES (0, 0, 0);
                PRAGMA user_version = \(schemaVersion);
                """)
        }
        return database
    }
}
