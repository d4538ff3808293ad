// The files of a cache in a directory, and how they are opened.
import Foundation

/// The files of a cache in a directory.
struct CacheDirectory: Sendable {
    let path: String

    var index: String { path + "/convoy-cache.sqlite" }
    var bodies: String { path + "/convoy-cache-bodies" }
    /// Bodies that no committed change names yet, or none names any more.
    ///
    /// A body that is being written is locked (`flock`) until it is named. The kernel releases the lock of a killed
    /// process.
    var parts: String { path + "/convoy-cache-parts" }

    func body(_ name: String) -> String { bodies + "/" + name }
    func part(_ name: String) -> String { parts + "/" + name }

    /// Makes what is missing, for its owner alone; a directory that is there keeps its permissions.
    func make() {
        let parent = (path as NSString).deletingLastPathComponent
        try? FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        mkdir(path, 0o700)
        mkdir(bodies, 0o700)
        mkdir(parts, 0o700)
    }

    /// By the key of the directory; by one of this process alone where it cannot be read.
    var digest: KeyedDigest {
        let file = path + "/convoy-cache.key"
        let kept = { (try? Data(contentsOf: URL(fileURLWithPath: file))).flatMap(KeyedDigest.init(key:)) }
        if let digest = kept() { return digest }
        make()
        return
            (try? locked { () throws(DatabaseError) in
                if let digest = kept() { return digest }
                // In place at once: another process reads it without the lock.
                let (digest, fresh) = (KeyedDigest(), file + ".new")
                unlink(fresh)
                let descriptor = Foundation.open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
                guard descriptor >= 0 else { return digest }
                defer { close(descriptor) }
                let count = digest.key.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
                if count == KeyedDigest.keyBytes { rename(fresh, file) } else { unlink(fresh) }
                return digest
            }) ?? KeyedDigest()
    }

    /// Removes index and bodies.
    func empty() {
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(index + suffix) }
        for folder in [bodies, parts] {
            for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
                unlink(folder + "/" + name)
            }
        }
    }

    /// Does what one process at a time may do.
    func locked<Value>(_ work: () throws(DatabaseError) -> Value) throws(DatabaseError) -> Value {
        let descriptor = Foundation.open(path + "/convoy-cache.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // Closing it releases the lock.
        defer { if descriptor >= 0 { close(descriptor) } }
        if descriptor >= 0 { while flock(descriptor, LOCK_EX) != 0, errno == EINTR {} }
        return try work()
    }

    /// Ends what a killed process has left half done: a part that the index names is a body, any other goes.
    ///
    /// - Parameter isNamed: whether the index names it; nil when that cannot be known now.
    func sweep(isNamed: (String) -> Bool?) {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: parts)) ?? [] {
            let descriptor = Foundation.open(part(name), O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            defer { close(descriptor) }
            // Else it is being written.
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { continue }
            switch isNamed(name) {
            case true: settle(name)
            case false: unlink(part(name))
            case nil: break
            }
        }
    }

    /// Makes a part, locked as long as its descriptor is open; -1 when that fails.
    func makePart(_ name: String) -> Int32 {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
        var descriptor = Foundation.open(part(name), flags, 0o600)
        if descriptor < 0, errno == ENOENT {
            make()
            descriptor = Foundation.open(part(name), flags, 0o600)
        }
        guard descriptor >= 0 else { return -1 }
        var status = stat()
        // A sweep may have seen it before it was locked, and removed it.
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0, status.st_nlink > 0 {
            return descriptor
        }
        close(descriptor)
        unlink(part(name))
        return -1
    }

    /// Makes a body of a part, when the index names it.
    func settle(_ name: String) { rename(part(name), body(name)) }

    /// Opens a body, or a part that the index names already; nil when it is not there or has another length.
    func open(_ name: String, byteCount: Int64) -> StoredFile? {
        // Another process may settle it between the first two.
        for path in [body(name), part(name), body(name)] {
            if let file = StoredFile(path: path, byteCount: byteCount) { return file }
        }
        return nil
    }

    /// Takes the name of a body away; ``remove(_:)`` removes it when that has been committed.
    func release(_ name: String) { rename(body(name), part(name)) }

    /// Removes a body; the part first, as a sweep may make a body of it until then.
    func remove(_ name: String) {
        unlink(part(name))
        unlink(body(name))
    }

    /// The number of the index's file: another one has taken its place when it changes.
    var indexNumber: UInt64 {
        var status = stat()
        return stat(index, &status) == 0 ? UInt64(status.st_ino) : 0
    }
}

extension Database {
    /// The version of the schema; an index of another one is emptied.
    static let schemaVersion: Int64 = 2

    /// Opens the index of a directory, whose schema is this one's.
    ///
    /// - Parameter mayEmpty: whether another schema, or damage, is removed; else it is an error.
    /// - Returns: whether something had to go first.
    static func index(
        in directory: CacheDirectory, busyMilliseconds: Int32, mayEmpty: Bool
    ) throws(DatabaseError) -> (Database, wasEmptied: Bool) {
        directory.make()
        do throws(DatabaseError) {
            return (try opened(directory, busyMilliseconds), false)
        } catch {
            guard error.isDamage, mayEmpty else { throw error }
            return try directory.locked { () throws(DatabaseError) in
                // Another may have removed it while this one waited.
                if let database = try? opened(directory, busyMilliseconds) { return (database, false) }
                directory.empty()
                return (try opened(directory, busyMilliseconds), true)
            }
        }
    }

    private static func opened(_ directory: CacheDirectory, _ busyMilliseconds: Int32) throws(DatabaseError) -> Database
    {
        let database = try Database(directory.index, busyMilliseconds: busyMilliseconds)
        // Never synced: what a crash of the system damages is found by the digests.
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
                PRAGMA user_version = 2;
                """)
        }
        return database
    }
}
