// A real PostgreSQL server for the tests.
import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// A server in a temporary directory, reached by a socket in it; as `nobody` if the tests run as root.
///
/// It runs without `fsync`, because these tests are about transactions and not about power failures. A shell starts
/// it and waits for the end of its standard input. When the test process ends for any reason, the shell stops the
/// server and removes the directory.
final class PostgresServer: Sendable {
    /// The newest version that is installed in Debian's layout.
    private static let version = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql"))?
        .compactMap(Int.init).max()
    static let programs = version.map { "/usr/lib/postgresql/\($0)/bin" }
    /// Copying files takes half the time of PostgreSQL 15's default; older versions always copy files.
    private static let strategy = version ?? 0 >= 15 ? "STRATEGY FILE_COPY" : ""
    static let isInstalled = programs.map { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") } ?? false
    static let reason: Comment = "PostgreSQL is not installed: apt-get install postgresql"

    /// The server of all tests that neither stop it nor change its settings.
    static func shared() async throws -> PostgresServer { try await sharedTask.value }
    private static let sharedTask = Task { try await PostgresServer(isFirst: true) }

    private let process = Process()
    private let commands = Pipe()
    private let answers = Pipe()
    let directory: String

    /// Creates a cluster and starts it.
    ///
    /// - Parameters:
    ///   - isDurable: whether commits wait for the disk.
    ///   - primary: the server whose standby it becomes; nil for a primary.
    ///   - isFirst: whether it makes new files. Copies of its files take a tenth of the time of `initdb`.
    init(isDurable: Bool = false, standbyOf primary: PostgresServer? = nil, isFirst: Bool = false) async throws {
        let template = try await isFirst ? nil : Self.shared()
        directory = FileManager.default.temporaryDirectory.path + "/convoy-pg-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = [
            "-c", Self.script, "sh", directory, Self.programs ?? "", isDurable ? "on" : "off", primary?.directory ?? "",
            template?.directory ?? "",
        ]
        process.standardInput = commands
        process.standardOutput = answers
        for handle in [commands.fileHandleForWriting, answers.fileHandleForReading] {
            // Another child process with this descriptor would keep the server running.
            _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        try process.run()
        try await tell("")
    }

    deinit { try? commands.fileHandleForWriting.close() }

    private static let script = """
        directory=$1 programs=$2 durability=$3 primary=$4 template=$5
        cd "$directory"
        as=
        [ "$(id -u)" != 0 ] || { chown nobody .; as="setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups"; }
        run() { $as timeout 150 "$@" >> log 2>&1 < /dev/null; }
        control() { run "$programs/pg_ctl" -w -t 120 -D "$directory/data" -l "$directory/data/log" "$@"; }
        start() {
            # A new process of the server touches its share of the buffers, and a new file of the log is filled with zeros.
            control start -o "-k $directory -c listen_addresses= -c fsync=$durability -c full_page_writes=$durability \\
                -c shared_buffers=16MB -c wal_init_zero=off -c checkpoint_timeout=1h"
        }
        tell() { if [ "$1" = 0 ]; then echo done; else tail -n 20 log | tr '\\n' ' '; echo; fi; }
        trap 'control stop -m immediate; rm -rf "$directory"' EXIT
        trap '' INT TERM
        make() {
            if [ -n "$primary" ]; then
                run "$programs/pg_basebackup" -R -c fast --no-sync -D "$directory/data" -h "$primary" -U convoy
            elif [ -n "$template" ]; then
                run cp -Rp "$template/template" "$directory/data"
            else
                run "$programs/initdb" --no-sync -D "$directory/data" -U convoy -A trust -E UTF8 --no-locale &&
                    run cp -Rp "$directory/data" "$directory/template"
            fi
        }
        make && start
        tell $?
        while read -r command; do
            case $command in
            stop) control stop -m immediate ;;
            start) start ;;
            promote) control promote ;;
            esac
            tell $?
        done
        """

    /// Ends the server like a crash, and returns when it has ended.
    func stop() async throws { try await tell("stop") }
    func start() async throws { try await tell("start") }
    func promote() async throws { try await tell("promote") }

    /// Replaces a file, if it exists, by a symbolic link to the directory of this server.
    func take(_ name: URL) throws {
        try? FileManager.default.removeItem(at: name)
        try FileManager.default.createSymbolicLink(atPath: name.path, withDestinationPath: directory)
    }

    /// Without a command, waits for the start.
    private func tell(_ command: String) async throws {
        let output = answers.fileHandleForReading
        if !command.isEmpty { try commands.fileHandleForWriting.write(contentsOf: Data((command + "\n").utf8)) }
        let answer = await offPool {
            var line = Data()
            while let byte = try? output.read(upToCount: 1), !byte.isEmpty, byte != Data("\n".utf8) { line += byte }
            return String(decoding: line, as: UTF8.self)
        }
        guard answer == "done" else { throw PostgresError(.unreachable, "\(command) of the server failed: \(answer)") }
    }

    /// The address of a database by the socket in another directory.
    static func address(_ database: String, at directory: String) -> String {
        "\(database.split(separator: "?")[0])?host=\(directory)&user=convoy"
    }

    func address(of database: String) -> String { "postgres:///\(database)?host=\(directory)&user=convoy" }

    /// Creates a database, empty by default, and returns its address.
    ///
    /// - Parameters:
    ///   - options: the text after the database's name in `CREATE DATABASE`.
    ///   - template: the address of a database to copy, to which no connection may be open.
    func makeDatabase(_ options: String = "", copying template: String? = nil) async throws -> String {
        let name = "test_\(UUID().uuidString.prefix(8).lowercased())"
        let template = template.flatMap { URL(string: $0)?.lastPathComponent } ?? "template0"
        try await sql(
            address(of: "postgres"), "CREATE DATABASE \(name) TEMPLATE \(template) \(Self.strategy) \(options)")
        return address(of: name)
    }
}

/// Another client, which holds locks.
final class OtherClient: @unchecked Sendable {
    // @unchecked: only one thread at a time uses the connection.
    private let connection: PostgresConnection

    init(_ address: String, _ statements: String...) throws {
        connection = try PostgresConnection(address, within: .seconds(60))
        for statement in statements { try run(statement) }
    }

    func run(_ statement: String) throws { try connection.run(statement, within: .seconds(120)) }

    /// Makes every transaction wait, after an event, until the returned client unlocks 77 or ends.
    ///
    /// If `isDeferred`, the transaction waits in its COMMIT.
    static func gate(
        _ address: String, after event: String, when condition: String = "true", isDeferred: Bool = true
    ) async throws -> OtherClient {
        let deferral = isDeferred ? "DEFERRABLE INITIALLY DEFERRED" : ""
        try await sql(
            address,
            """
            CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $body$
            """,
            """
            CREATE \(isDeferred ? "CONSTRAINT" : "") TRIGGER pause AFTER \(event) \(deferral)
                FOR EACH ROW WHEN (\(condition)) EXECUTE FUNCTION pause()
            """)
        return try await offPool { try OtherClient(address, "SELECT count(pg_advisory_lock(77))") }
    }

    /// The connections that wait for locks.
    static let waiting =
        "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    /// Waits until this number of connections wait for locks.
    func waitForOthers(_ count: Int64, or isOver: () -> Bool = { false }) throws {
        try wait(for: "count(*) >= \(count) \(Self.waiting)", or: isOver)
    }

    /// Asks again and again until the answer is true.
    func wait(for condition: String, or isOver: () -> Bool = { false }) throws {
        for _ in 1...10_000 where !isOver() {
            let rows = try connection.run("SELECT pg_sleep(0.005)::text, \(condition)", within: .seconds(120))
            if try rows.bool(0, 1) ?? false { return }
        }
        if !isOver() { Issue.record("never true: \(condition)") }
    }
}

/// Runs statements on a new connection.
func sql(_ address: String, _ statements: String...) async throws {
    try await offPool {
        let connection = try PostgresConnection(address, within: .seconds(60))
        for statement in statements { try connection.run(statement, within: .seconds(120)) }
    }
}

/// Ends every other connection to the database.
func disconnect(_ address: String) async throws {
    try await sql(
        address,
        """
        SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        """)
}

/// Checks the invariants of the tables: each search finds the rows that break one.
func checkPostgresRules(_ address: String) async throws {
    let searches = [
        """
        SELECT kind, state, c.n AS counted, j.n AS jobs
        FROM (SELECT kind, state, sum(count) AS n FROM convoy_counts GROUP BY 1, 2) AS c
        FULL JOIN (SELECT kind, state, count(*) AS n FROM convoy_jobs GROUP BY 1, 2) AS j USING (kind, state)
        WHERE coalesce(c.n, 0) <> coalesce(j.n, 0)
        """, "SELECT * FROM convoy_jobs WHERE (state = 2) <> (owner IS NOT NULL)",
        """
        SELECT k.*, ARRAY(SELECT ROW(o.position, o.id, o.state)::text FROM convoy_jobs AS o
            WHERE o.group_name = k.group_name OR o.unique_key = k.unique_key OR o.id IN (
                SELECT needed FROM convoy_needs AS n WHERE n.position = k.position)) AS others
        FROM convoy_jobs AS k WHERE state < 4 AND (
            needs <> (SELECT count(DISTINCT n.needed) FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
                WHERE n.position = k.position AND o.state <> 4)
            OR is_behind_group <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.group_name = k.group_name
                AND o.state < 4 AND o.position < k.position)
            OR is_behind_key <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.unique_key = k.unique_key
                AND o.state < 4 AND o.position < k.position)
            OR state < 2 AND (state = 1) <> (needs > 0 OR is_behind_group OR is_behind_key))
        """,
        """
        SELECT j.*, o.id AS cancelled FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
        JOIN convoy_jobs AS j ON j.position = n.position WHERE o.state = 6 AND j.state IN (0, 1, 2, 3, 5)
        """,
        """
        SELECT position FROM convoy_jobs FULL JOIN convoy_contents USING (position) WHERE id IS NULL OR method IS NULL
        UNION ALL SELECT position FROM convoy_jobs FULL JOIN convoy_results AS r USING (position)
            WHERE id IS NULL OR has_result <> (r.header_fields IS NOT NULL)
        UNION ALL SELECT position FROM convoy_needs LEFT JOIN convoy_jobs USING (position) WHERE id IS NULL
        """,
    ]
    try await offPool {
        let connection = try PostgresConnection(address, within: .seconds(60))
        for search in searches {
            let rows = try connection.run("SELECT string_agg(found::text, E'\\n') FROM (\(search)) AS found")
            #expect(try rows.text(0, 0) == nil, "\(search)")
        }
    }
}
