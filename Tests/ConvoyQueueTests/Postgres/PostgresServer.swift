// A real PostgreSQL server for the tests.
import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// A server in a temporary directory, reached by a socket in it.
///
/// It runs as `nobody` if the tests run as root.
///
/// It runs without `fsync`, because these tests are about transactions and not about power failures. A shell starts
/// it and waits for the end of its standard input. When the test process ends for any reason, the shell stops the
/// server and removes the directory.
final class PostgresServer: Sendable {
    /// The programs of the newest version that is installed in Debian's layout.
    static let programs = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql"))?
        .sorted { (Int($0) ?? 0) < (Int($1) ?? 0) }.last.map { "/usr/lib/postgresql/\($0)/bin" }
    static let isInstalled = programs.map { FileManager.default.isExecutableFile(atPath: $0 + "/initdb") } ?? false
    /// Copying files takes half the time of PostgreSQL 15's default; older versions always copy files.
    private static let strategy: String = {
        let version = programs?.split(separator: "/").dropLast().last.flatMap { Int($0) } ?? 0
        return version >= 15 ? "STRATEGY FILE_COPY" : ""
    }()
    static let reason: Comment = "PostgreSQL is not installed: apt-get install postgresql"

    /// The server of all tests that neither stop it nor change its settings.
    static func shared() async throws -> PostgresServer { try await sharedTask.value }
    private static let sharedTask = Task { try await PostgresServer(template: nil) }
    private static let databaseCount = Locked(0)

    /// A directory in memory, if it has room for every database of the tests.
    ///
    /// A crash of the server loses nothing there. On a disk, the files of a cluster and of each test's database would
    /// take a tenth of the suite's time.
    private static let parent: String = {
        var usage = statvfs()
        guard statvfs("/dev/shm", &usage) == 0, UInt64(usage.f_bavail) * UInt64(usage.f_bsize) > 4 << 30 else {
            return "/tmp"
        }
        return "/dev/shm"
    }()

    private let process = Process()
    private let commands = Pipe()
    private let answers = Pipe()
    let directory: String

    /// Creates a cluster and starts it.
    ///
    /// - Parameters:
    ///   - isDurable: whether commits wait for the disk.
    ///   - primary: the server whose standby it becomes; nil for a primary.
    convenience init(isDurable: Bool = false, standbyOf primary: PostgresServer? = nil) async throws {
        // A copy takes a tenth of the time of `initdb`.
        try await self.init(isDurable: isDurable, standbyOf: primary, template: Self.shared())
    }

    /// - Parameter template: a server whose first files are copied; nil to create new files.
    private init(
        isDurable: Bool = false, standbyOf primary: PostgresServer? = nil, template: PostgresServer?
    ) async throws {
        var name = Array("\(Self.parent)/convoy-pg-XXXXXX".utf8CString)
        guard mkdtemp(&name) != nil else { throw POSIXError(.EIO) }
        directory = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        process.executableURL = URL(filePath: "/bin/sh")
        let durability = isDurable ? "on" : "off"
        process.arguments = [
            "-c", Self.script, "sh", directory, Self.programs ?? "", durability, primary?.directory ?? "",
            template?.directory ?? "",
        ]
        process.standardInput = commands
        process.standardOutput = answers
        for handle in [commands.fileHandleForWriting, answers.fileHandleForReading] {
            // Another child process with this descriptor would keep the server running.
            _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        try process.run()
        try await expectAnswer(to: "the start")
    }

    deinit { try? commands.fileHandleForWriting.close() }

    private static let script = """
        directory=$1 programs=$2 durability=$3 primary=$4 template=$5
        cd "$directory"
        run() {
            if [ "$(id -u)" = 0 ]; then
                setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups timeout 150 "$@" >> log 2>&1 < /dev/null
            else
                timeout 150 "$@" >> log 2>&1 < /dev/null
            fi
        }
        control() { run "$programs/pg_ctl" -w -t 120 -D "$directory/data" -l "$directory/data/log" "$@"; }
        start() {
            # A new process of the server touches its share of the buffers, and a new file of the log is filled with zeros.
            control start -o "-k $directory -c listen_addresses= -c fsync=$durability -c full_page_writes=$durability \\
                -c shared_buffers=16MB -c wal_init_zero=off -c checkpoint_timeout=1h"
        }
        tell() { if [ "$1" = 0 ]; then echo done; else tail -n 20 log | tr '\\n' ' '; echo; fi; }
        [ "$(id -u)" != 0 ] || chown nobody .
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

    private func expectAnswer(to command: String) async throws {
        let output = answers.fileHandleForReading
        let answer = await offPool { () -> String in
            var line = Data()
            while let byte = try? output.read(upToCount: 1), !byte.isEmpty, byte != Data("\n".utf8) { line += byte }
            return String(decoding: line, as: UTF8.self)
        }
        guard answer == "done" else {
            throw PostgresError(.unreachable, "\(command) of the server failed: \(answer)")
        }
    }

    /// Ends the server like a crash, and returns when it has ended.
    func stop() async throws { try await tell("stop") }

    func start() async throws { try await tell("start") }

    /// Promotes a standby to a primary.
    func promote() async throws { try await tell("promote") }

    /// Replaces a file, if it exists, by a symbolic link to the directory of this server.
    func take(_ name: URL) throws {
        try? FileManager.default.removeItem(at: name)
        try FileManager.default.createSymbolicLink(atPath: name.path, withDestinationPath: directory)
    }

    private func tell(_ command: String) async throws {
        try commands.fileHandleForWriting.write(contentsOf: Data((command + "\n").utf8))
        try await expectAnswer(to: command)
    }

    func address(of database: String) -> String { "postgres:///\(database)?host=\(directory)&user=convoy" }

    /// Creates a database, empty by default, and returns its address.
    ///
    /// - Parameters:
    ///   - options: the text after the database's name in `CREATE DATABASE`.
    ///   - template: the address of a database to copy, to which no connection may be open.
    func makeDatabase(_ options: String = "", copying template: String? = nil) async throws -> String {
        let number = Self.databaseCount.withLock { count in
            count += 1
            return count
        }
        let name = "test_\(number)"
        let address = address(of: "postgres")
        try await offPool {
            let connection = try PostgresConnection(address, within: .seconds(60))
            let template = template.flatMap { URL(string: $0)?.lastPathComponent } ?? "template0"
            try connection.run(
                "CREATE DATABASE \(name) TEMPLATE \(template) \(Self.strategy) \(options)", within: .seconds(60))
        }
        return self.address(of: name)
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

    /// Waits until this number of connections wait for locks.
    func waitForOthers(_ count: Int64, or isOver: () -> Bool = { false }) throws {
        for _ in 1...10_000 where !isOver() {
            let rows = try connection.run(
                """
                SELECT count(*), pg_sleep(0.005)::text FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """, within: .seconds(60))
            if try rows.int(0, 0) ?? 0 >= count { return }
        }
        if !isOver() { Issue.record("fewer than \(count) connections wait for locks") }
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
