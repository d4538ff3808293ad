import ConvoySQLite
import Foundation

/// The version of the schema is in `user_version`.
enum SQLiteSchema {
    static let applicationID: Int64 = 0x4356_5131
    /// A file of an older version is migrated with the scripts after its version.
    static let migrations = [version1, version2, version3, version4, version5]
    static var version: Int64 { Int64(migrations.count) }

    // The numbers of `state`: 0 waiting, 1 waiting for a date or delay, 2 blocked, 3 claimed, 4 answered, 5 done, 6
    // dead, 7 cancelled. `tally` counts claimed jobs as waiting, so that a claim does not write to `tally`.
    // `due` is in milliseconds: if `due_clock` is 0, of the store's clock, and if 1, since 1970. `behind` has a bit
    // for a job blocked by its group (1) and a bit for a job blocked by its key (2).
    private static let version1 = """
        CREATE TABLE job(
            position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, state INTEGER NOT NULL,
            priority INTEGER NOT NULL, due INTEGER, due_clock INTEGER NOT NULL DEFAULT 0, not_before INTEGER,
            expires INTEGER, needs TEXT, missing INTEGER NOT NULL DEFAULT 0, behind INTEGER NOT NULL DEFAULT 0,
            grp TEXT, key TEXT, key_policy TEXT, tags TEXT, method TEXT NOT NULL, url TEXT NOT NULL, fields TEXT,
            body INTEGER, body_path TEXT, destination TEXT, idempotency_key TEXT NOT NULL, added INTEGER NOT NULL,
            owner TEXT, claims INTEGER NOT NULL DEFAULT 0, attempt_count INTEGER NOT NULL DEFAULT 0, attempts TEXT,
            result INTEGER, failure TEXT, finished INTEGER);
        CREATE INDEX job_ready ON job(priority DESC) WHERE state = 0;
        CREATE INDEX job_due ON job(due_clock, due) WHERE state = 1;
        CREATE INDEX job_expires ON job(expires) WHERE expires IS NOT NULL AND state <= 2;
        CREATE INDEX job_owner ON job(owner) WHERE state = 3;
        CREATE INDEX job_answered ON job(position) WHERE state = 4;
        CREATE INDEX job_dead ON job(position) WHERE state = 6;
        CREATE INDEX job_group ON job(grp, position) WHERE grp IS NOT NULL AND state <= 4;
        CREATE INDEX job_key ON job(key, position) WHERE key IS NOT NULL AND state <= 4;
        CREATE INDEX job_finished ON job(finished) WHERE state = 5 OR state = 7;
        CREATE TABLE body(number INTEGER PRIMARY KEY, bytes BLOB, file TEXT);
        CREATE INDEX body_file ON body(file) WHERE file IS NOT NULL;
        CREATE TABLE result(number INTEGER PRIMARY KEY, status INTEGER, fields TEXT, bytes BLOB, is_cut INTEGER,
            failure TEXT);
        CREATE TABLE dependency(job TEXT NOT NULL, needs TEXT NOT NULL, PRIMARY KEY(needs, job)) WITHOUT ROWID;
        CREATE INDEX dependency_job ON dependency(job);
        CREATE TABLE owner(name TEXT PRIMARY KEY, ends INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE clock(boot TEXT NOT NULL, shift INTEGER NOT NULL, last INTEGER NOT NULL);
        CREATE TABLE tally(kind TEXT NOT NULL, state INTEGER NOT NULL, count INTEGER NOT NULL,
            PRIMARY KEY(kind, state)) WITHOUT ROWID;
        CREATE TRIGGER job_added AFTER INSERT ON job BEGIN
            INSERT INTO tally VALUES(new.kind, CASE WHEN new.state IN (1, 3) THEN 0 ELSE new.state END, 1)
                ON CONFLICT(kind, state) DO UPDATE SET count = count + 1;
        END;
        CREATE TRIGGER job_moved AFTER UPDATE OF state ON job
        WHEN CASE WHEN old.state IN (1, 3) THEN 0 ELSE old.state END <>
            CASE WHEN new.state IN (1, 3) THEN 0 ELSE new.state END
        BEGIN
            INSERT INTO tally VALUES(new.kind, CASE WHEN new.state IN (1, 3) THEN 0 ELSE new.state END, 1)
                ON CONFLICT(kind, state) DO UPDATE SET count = count + 1;
            UPDATE tally SET count = count - 1
                WHERE kind = old.kind AND state = CASE WHEN old.state IN (1, 3) THEN 0 ELSE old.state END;
        END;
        CREATE TRIGGER job_deleted AFTER DELETE ON job BEGIN
            UPDATE tally SET count = count - 1
                WHERE kind = old.kind AND state = CASE WHEN old.state IN (1, 3) THEN 0 ELSE old.state END;
        END;
        """

    /// Marks a file for which `prepare` has removed the permissions of other users; the tables are unchanged.
    private static let version2 = ""

    private static let version3 = "ALTER TABLE job ADD COLUMN follows_as_get INTEGER NOT NULL DEFAULT 0;"

    /// The index contains suspects: jobs with at least two lapses.
    private static let version4 = """
        ALTER TABLE job ADD COLUMN lapses INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX job_suspect ON job(state) WHERE lapses >= 2;
        """

    /// Existing jobs have no host, so the limit of claims for each host does not apply to them.
    private static let version5 = """
        ALTER TABLE job ADD COLUMN host TEXT NOT NULL DEFAULT '';
        DROP INDEX job_ready;
        CREATE INDEX job_ready ON job(priority DESC, (attempt_count > 0)) WHERE state = 0;
        CREATE INDEX job_host ON job(host, priority DESC, (attempt_count > 0)) WHERE state = 0;
        """

    static func prepare(_ connection: SQLiteConnection) throws {
        let path = connection.path
        // The file is checked before anything is written, because it may belong to another program.
        if try check(connection) < 2 {
            // Files before version 2 were readable by others. They are made private once, when they are migrated; the
            // owner of the files may grant permissions afterwards.
            for suffix in ["", "-wal", "-shm"] { chmod(path + suffix, 0o600) }
        }
        try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
        // The limit is the size at which SQLite writes the log to the database. Otherwise the log would keep its largest
        // size until every process closes the database.
        try connection.execute("PRAGMA cache_size = -8192; PRAGMA journal_size_limit = 4194304")
        // On Apple platforms a plain sync leaves the bytes in the drive's cache. Elsewhere these pragmas have no
        // effect.
        try connection.execute("PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
        let mode = try connection.rows("PRAGMA journal_mode") { $0.text(0) }.first ?? nil
        guard mode == "wal" else {
            throw QueueError(
                .notPermitted,
                "\(path) cannot have a write-ahead log (its journal mode is \(mode ?? "unknown")): "
                    + "put it on a local disk, not on a network file system")
        }
        try connection.transaction {
            // Another process may have migrated the file since the first check.
            let found = try check(connection)
            for script in migrations[Int(found)...] { try connection.execute(script) }
            if found < version {
                try connection.execute("PRAGMA application_id = \(applicationID); PRAGMA user_version = \(version)")
            }
        }
    }

    // Returns 0 for an empty file. Throws for the file of another program, and for a newer version.
    private static func check(_ connection: SQLiteConnection) throws -> Int64 {
        let path = connection.path
        let tables = try connection.number("SELECT count(*) FROM sqlite_master") ?? 0
        let found = try connection.number("PRAGMA user_version") ?? 0
        // Read last: another process may create the tables between two of these statements.
        let application = try connection.number("PRAGMA application_id") ?? 0
        guard application == applicationID || (application == 0 && tables == 0 && found == 0) else {
            throw QueueError(
                .foreignFile,
                "\(path) is a database of another program: name another file; this one was not changed")
        }
        guard found <= version else {
            throw QueueError(
                .newerSchema,
                "\(path) has tables of version \(found), but this library supports only version \(version): "
                    + "use a newer library; the file was not changed")
        }
        return max(0, found)
    }
}
