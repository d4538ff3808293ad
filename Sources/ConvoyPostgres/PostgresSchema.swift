import Convoy
import ConvoyQueue
import Foundation

/// Each step runs once in a database, in the first process that needs it.
enum PostgresSchema {
    /// Published steps never change.
    static let migrations = [tables + indexes + [counting] + triggers, redirects, lapses, hosts, commits, outcomes]

    /// Published numbers never change.
    static let states: [JobState] = [.waiting, .blocked, .claimed, .answered, .done, .dead, .cancelled]

    static let partTables = ["convoy_contents", "convoy_bodies", "convoy_results", "convoy_needs"]

    // The rows of `convoy_jobs` are narrow, because they change often. `due`, `finished` and `ends` are times of the
    // server's clock in microseconds; `not_before`, `expires` and `added` are dates in seconds since 2001. A job that
    // is ready has neither `due` nor `not_before`.
    private static let tables = [
        "CREATE SEQUENCE convoy_positions",
        """
        CREATE TABLE convoy_jobs (
            position int8 PRIMARY KEY DEFAULT nextval('convoy_positions'),
            id text COLLATE "C" NOT NULL UNIQUE,
            kind text COLLATE "C" NOT NULL,
            state int2 NOT NULL,
            priority int4 NOT NULL,
            due int8,
            not_before float8,
            expires float8,
            group_name text COLLATE "C",
            unique_key text COLLATE "C",
            needs int4 NOT NULL DEFAULT 0,
            is_needed bool NOT NULL DEFAULT false,
            is_behind_group bool NOT NULL DEFAULT false,
            is_behind_key bool NOT NULL DEFAULT false,
            owner text COLLATE "C",
            claim_count int8 NOT NULL DEFAULT 0,
            has_result bool NOT NULL DEFAULT false,
            has_body bool NOT NULL DEFAULT false,
            attempt_count int8 NOT NULL DEFAULT 0,
            attempts text[] NOT NULL DEFAULT '{}',
            failure text,
            added float8 NOT NULL,
            finished int8
        ) WITH (fillfactor = 80)
        """,
        """
        CREATE TABLE convoy_contents (
            position int8 PRIMARY KEY,
            method text NOT NULL,
            url text NOT NULL,
            header_fields text NOT NULL,
            body_file text,
            destination text,
            not_before float8,
            policy text,
            tags text[] NOT NULL,
            idempotency_key text NOT NULL
        )
        """,
        "CREATE TABLE convoy_bodies (position int8 PRIMARY KEY, body bytea NOT NULL)",
        """
        CREATE TABLE convoy_results (
            position int8 PRIMARY KEY,
            status_code int8,
            header_fields text NOT NULL,
            body bytea NOT NULL,
            is_body_cut bool NOT NULL,
            failure text
        )
        """,
        """
        CREATE TABLE convoy_needs (
            position int8 NOT NULL,
            number int4 NOT NULL,
            needed text COLLATE "C" NOT NULL,
            PRIMARY KEY (position, number)
        )
        """,
        "CREATE TABLE convoy_owners (owner text COLLATE \"C\" PRIMARY KEY, ends int8 NOT NULL)",
        // Each count is the sum of up to 32 shares, so that two connections rarely wait for each other at one row.
        """
        CREATE TABLE convoy_counts (
            share int4 NOT NULL,
            kind text COLLATE "C" NOT NULL,
            state int2 NOT NULL,
            count int8 NOT NULL,
            PRIMARY KEY (share, kind, state)
        ) WITH (fillfactor = 50)
        """,
    ]

    private static let redirects = ["ALTER TABLE convoy_contents ADD COLUMN follows_as_get bool NOT NULL DEFAULT false"]

    /// The index contains suspects: jobs with at least two lapses.
    private static let lapses = [
        "ALTER TABLE convoy_jobs ADD COLUMN lapses int4 NOT NULL DEFAULT 0",
        "CREATE INDEX convoy_suspect ON convoy_jobs (priority DESC, position) WHERE lapses >= 2",
    ]

    /// Existing jobs have no host, so the limit of claims for each host does not apply to them.
    private static let hosts = [
        "ALTER TABLE convoy_jobs ADD COLUMN host text COLLATE \"C\" NOT NULL DEFAULT ''", "DROP INDEX convoy_ready",
        """
        CREATE INDEX convoy_ready ON convoy_jobs (priority DESC, (attempt_count > 0), position)
            WHERE state = 0 AND due IS NULL AND not_before IS NULL
        """,
        """
        CREATE INDEX convoy_hosts ON convoy_jobs (host, priority DESC, (attempt_count > 0), position)
            WHERE state = 0 AND due IS NULL AND not_before IS NULL
        """,
    ]

    private static let commits = [
        """
        CREATE TABLE convoy_commits (
            number text COLLATE "C" PRIMARY KEY, made int8 NOT NULL, count int8 NOT NULL DEFAULT 1)
        """, "CREATE INDEX convoy_commits_made ON convoy_commits (made)",
    ]

    // The results serve a repetition after a connection was lost during COMMIT. `positions` has the jobs that the
    // transaction added or claimed.
    private static let outcomes = [
        "ALTER TABLE convoy_commits ADD COLUMN positions int8[], ADD COLUMN settled int8[]"
    ]

    private static let indexes = [
        """
        CREATE INDEX convoy_ready ON convoy_jobs (priority DESC, position)
            WHERE state = 0 AND due IS NULL AND not_before IS NULL
        """,
        "CREATE INDEX convoy_due ON convoy_jobs (due) WHERE state = 0 AND due IS NOT NULL",
        "CREATE INDEX convoy_dated ON convoy_jobs (not_before) WHERE state = 0 AND not_before IS NOT NULL",
        "CREATE INDEX convoy_expiring ON convoy_jobs (expires) WHERE state < 2 AND expires IS NOT NULL",
        "CREATE INDEX convoy_claimed ON convoy_jobs (owner) WHERE state = 2",
        "CREATE INDEX convoy_answered ON convoy_jobs (position) WHERE state = 3",
        "CREATE INDEX convoy_groups ON convoy_jobs (group_name, position) WHERE state < 4 AND group_name IS NOT NULL",
        "CREATE INDEX convoy_keys ON convoy_jobs (unique_key, position) WHERE state < 4 AND unique_key IS NOT NULL",
        "CREATE INDEX convoy_ended ON convoy_jobs (finished) WHERE state IN (4, 6)",
        "CREATE INDEX convoy_needed ON convoy_needs (needed)",
    ]

    private static let counting = """
        CREATE FUNCTION convoy_count() RETURNS trigger LANGUAGE plpgsql AS $body$
        DECLARE
            own int4 := pg_backend_pid() % 32;
        BEGIN
            IF TG_OP = 'INSERT' THEN
                INSERT INTO convoy_counts AS c (share, kind, state, count)
                    SELECT own, kind, state, count(*) FROM new_jobs GROUP BY kind, state ORDER BY kind, state
                    ON CONFLICT (share, kind, state) DO UPDATE SET count = c.count + excluded.count;
            ELSIF TG_OP = 'DELETE' THEN
                INSERT INTO convoy_counts AS c (share, kind, state, count)
                    SELECT own, kind, state, -count(*) FROM old_jobs GROUP BY kind, state ORDER BY kind, state
                    ON CONFLICT (share, kind, state) DO UPDATE SET count = c.count + excluded.count;
            ELSE
                INSERT INTO convoy_counts AS c (share, kind, state, count)
                    SELECT own, kind, state, sum(n) FROM (
                        SELECT kind, state, 1 AS n FROM new_jobs UNION ALL SELECT kind, state, -1 FROM old_jobs
                    ) AS changes GROUP BY kind, state HAVING sum(n) <> 0 ORDER BY kind, state
                    ON CONFLICT (share, kind, state) DO UPDATE SET count = c.count + excluded.count;
            END IF;
            RETURN NULL;
        END
        $body$
        """

    /// The server runs them after every change.
    private static let triggers = [
        ("added", "INSERT", "NEW TABLE AS new_jobs"),
        ("changed", "UPDATE", "NEW TABLE AS new_jobs OLD TABLE AS old_jobs"),
        ("deleted", "DELETE", "OLD TABLE AS old_jobs"),
    ].map { name, change, tables in
        """
        CREATE TRIGGER convoy_count_\(name) AFTER \(change) ON convoy_jobs
            REFERENCING \(tables) FOR EACH STATEMENT EXECUTE FUNCTION convoy_count()
        """
    }
}

extension PostgresConnection {
    func migrate() throws {
        if try schemaVersion() == PostgresSchema.migrations.count { return }
        later(Self.begin)
        later(Self.time)
        try rollingBack {
            // Every process uses this number for the lock, so the number must never change.
            later(PostgresStatement("SELECT 1 FROM (SELECT pg_advisory_xact_lock(109342240173945)) AS a"))
            later(PostgresStatement("CREATE TABLE IF NOT EXISTS convoy_schema (version int8 NOT NULL)"))
            let version = try schemaVersion() ?? 0
            guard version <= PostgresSchema.migrations.count else {
                throw QueueError(
                    .newerSchema,
                    "the tables in the database have version \(version), made by a newer version of this program, which "
                        + "knows \(PostgresSchema.migrations.count); use that one, or another database")
            }
            guard version >= 0 else {
                throw PostgresError(.answerInvalid, "its convoy_schema has the version \(version)")
            }
            for statement in PostgresSchema.migrations.dropFirst(version).joined() {
                later(PostgresStatement(statement))
            }
            later(PostgresStatement("DELETE FROM convoy_schema"))
            let count = PostgresValue.int(PostgresSchema.migrations.count)
            later(PostgresStatement("INSERT INTO convoy_schema VALUES ($1)", [count]))
            try run("COMMIT")
        }
    }

    private func schemaVersion() throws(PostgresError) -> Int? {
        let isThere = try run("SELECT to_regclass('convoy_schema') IS NOT NULL").bool(0, 0) ?? false
        guard isThere else { return nil }
        let rows = try run("SELECT max(version) FROM convoy_schema")
        return try rows.int(0, 0).map { Int($0) }
    }

    /// Adds advice about missing privileges, and about tables that are not those of a queue.
    func explaining(_ error: any Error) -> any Error {
        guard let error = error as? PostgresError else { return error }
        if error.state == "42501" {
            return QueueError(
                .notPermitted,
                "the tables of the queue cannot be created or read: \(error.description); grant the role CREATE on the "
                    + "schema, or create the tables with another role, and grant this one the tables, their sequence and "
                    + "USAGE")
        }
        let foreign = ["42P01", "42703", "42P07", "42809", "42723", "42804"]
        guard error.kind == .answerInvalid || error.state.map(foreign.contains) ?? false else { return error }
        return QueueError(
            .foreignFile,
            "the database has tables named convoy_… that are not those of a queue: \(error.description); "
                + "use another database, or another schema with ?options=-csearch_path%3Dname in its address")
    }
}
