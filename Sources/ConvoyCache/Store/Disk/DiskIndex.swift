// The files of a cache directory, and how they are opened.
import Foundation

/// The files of a cache directory.
struct CacheDirectory: Sendable {
    let path: String

    var index: String { path + "/convoy-cache.sqlite" }
    var bodies: String { path + "/convoy-cache-bodies" }

    func body(_ name: String) -> String { bodies + "/" + name }

    /// Creates missing directories for their owner only.
    ///
    /// An existing directory keeps its permissions.
    func make() {
        let parent = (path as NSString).deletingLastPathComponent
        try? FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        mkdir(path, 0o700)
        mkdir(bodies, 0o700)
    }

    /// Removes the index and the bodies.
    func empty() {
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(index + suffix) }
        for name in (try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? [] { unlink(body(name)) }
    }

    /// Runs code that only one process at a time may run.
    func locked<Value>(_ work: () throws(DatabaseError) -> Value) throws(DatabaseError) -> Value {
        let descriptor = open(path + "/convoy-cache.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // Closing the descriptor releases the lock.
        defer { if descriptor >= 0 { close(descriptor) } }
        if descriptor >= 0 { while flock(descriptor, LOCK_EX) != 0, errno == EINTR {} }
        return try work()
    }

    /// Removes bodies that the index does not contain, because a process was killed before adding them.
    ///
    /// - Parameter age: their minimum age in seconds. Younger ones may belong to a running process.
    func sweep(keeping names: (String) -> Bool, olderThan age: Double = 3600) {
        let now = Date().timeIntervalSince1970
        for name in (try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? [] {
            var status = stat()
            guard stat(body(name), &status) == 0 else { continue }
            #if canImport(Darwin)
                let changed = Double(status.st_mtimespec.tv_sec)
            #else
                let changed = Double(status.st_mtim.tv_sec)
            #endif
            if now - changed >= age, !names(name) { unlink(body(name)) }
        }
    }

    /// The inode of the index.
    ///
    /// If it changes, another index has replaced the file.
    var indexNumber: UInt64 {
        var status = stat()
        return stat(index, &status) == 0 ? UInt64(status.st_ino) : 0
    }
}

extension Database {
    /// The version of the schema.
    ///
    /// An index of another version is emptied.
    static let schemaVersion: Int64 = 1

    /// Opens the index of a directory with the current schema.
    ///
    /// - Parameter mayEmpty: whether an index that is damaged or has another schema is removed. Otherwise that is an
    ///   error.
    /// - Returns: the database, and whether an index was removed first.
    static func index(
        in directory: CacheDirectory, busyMilliseconds: Int32, mayEmpty: Bool
    ) throws(DatabaseError) -> (Database, wasEmptied: Bool) {
        directory.make()
        do throws(DatabaseError) {
            return (try opened(directory, busyMilliseconds), false)
        } catch {
            guard error.isDamage, mayEmpty else { throw error }
            return try directory.locked { () throws(DatabaseError) in
                // Another process may have removed it during the wait.
                if let database = try? opened(directory, busyMilliseconds) { return (database, false) }
                directory.empty()
                return (try opened(directory, busyMilliseconds), true)
            }
        }
    }

    private static func opened(_ directory: CacheDirectory, _ busyMilliseconds: Int32) throws(DatabaseError) -> Database
    {
        let database = try Database(directory.index, busyMilliseconds: busyMilliseconds)
        // Never synced. Digests detect what a system crash damages.
        try database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA journal_size_limit = 4194304")
        let version = try database.rows("PRAGMA user_version") { $0.integer(0) }.first ?? 0
        if version == schemaVersion { return database }
        let tables = try database.rows("SELECT count(*) FROM sqlite_master") { $0.integer(0) }.first ?? 0
        guard version == 0, tables == 0 else { throw DatabaseError(code: DatabaseError.otherSchema) }
        try database.transaction { () throws(DatabaseError) in
            // Another process may have been first.
            guard try database.rows("PRAGMA user_version", make: { $0.integer(0) }).first == 0 else { return }
            try database.execute(
                """
                CREATE TABLE entries (
                    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, head BLOB NOT NULL, body BLOB, file TEXT,
                    bytes INTEGER NOT NULL, used INTEGER NOT NULL);
                CREATE INDEX entries_key ON entries (key);
                CREATE INDEX entries_used ON entries (used);
                CREATE INDEX entries_file ON entries (file) WHERE file IS NOT NULL;
                CREATE TABLE totals (bytes INTEGER NOT NULL, entries INTEGER NOT NULL, used INTEGER NOT NULL);
                INSERT INTO totals VALUES (0, 0, 0);
                CREATE TRIGGER added AFTER INSERT ON entries BEGIN
                    UPDATE totals SET bytes = bytes + new.bytes, entries = entries + 1;
                END;
                CREATE TRIGGER removed AFTER DELETE ON entries BEGIN
                    UPDATE totals SET bytes = bytes - old.bytes, entries = entries - 1;
                END;
                CREATE TRIGGER changed AFTER UPDATE OF bytes ON entries BEGIN
                    UPDATE totals SET bytes = bytes + new.bytes - old.bytes;
                END;
                PRAGMA user_version = 1;
                """)
        }
        return database
    }
}
