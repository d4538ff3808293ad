// The store of a case, which exists while the case runs.
import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation

/// The subjects that are measured.
enum DurableSubject: String {
    case sqlite
    case postgres
    /// A loop over the system's SQLite that commits the same rows.
    case bare = "sqlite3"
    /// The same requests without a queue.
    case direct = "convoy"
}

/// An empty store, which is removed at the end.
struct DurablePlace {
    let store: any Store
    private let directory: URL
    private let server: String?
    private let database = "convoy_bench_\(getpid())"

    /// Makes the store of a case: an SQLite file, or a new PostgreSQL database on the server of the case.
    init(_ spec: CaseSpec) async throws {
        let parent = spec.directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        directory = parent.appending(path: "convoy-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        guard spec.subject == DurableSubject.postgres.rawValue else {
            server = nil
            store = try SQLiteStore(at: directory.appending(path: "queue.sqlite"))
            return
        }
        guard let address = spec.database, var parts = URLComponents(string: address) else {
            throw BenchmarkError("--postgres is not a URL: postgres://user@host:port/database")
        }
        server = address
        _ = try Self.ask(address, "CREATE DATABASE \(database)")
        parts.path = "/\(database)"
        store = try await PostgresStore(parts.string ?? address)
    }

    /// The database of an SQLite store.
    var file: URL { directory.appending(path: "queue.sqlite") }

    /// The size of the database on its disk.
    func byteCount() throws -> Int? {
        if let server { return Int(try Self.ask(server, "SELECT pg_database_size('\(database)')")) }
        return try FileManager.default.subpathsOfDirectory(atPath: directory.path).reduce(0) { sum, path in
            let file = directory.appending(path: path).path
            return sum + ((try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? 0)
        }
    }

    /// Closes the store, and removes its database and its directory.
    func remove() async throws {
        await store.close()
        if let server { _ = try Self.ask(server, "DROP DATABASE \(database) WITH (FORCE)") }
        try FileManager.default.removeItem(at: directory)
    }

    /// Runs a statement with `psql`, and returns the output.
    private static func ask(_ server: String, _ statement: String) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["psql", "--no-psqlrc", "-Atqc", statement, server]
        process.standardOutput = output
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkError(
                "psql, of Debian's postgresql-client, ended with status \(process.terminationStatus), see above")
        }
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
