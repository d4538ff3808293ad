import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

@Suite struct PostgresLibraryTests {
    @Test(arguments: [
        ("libpq-of-no-system.so.5", ["cannot open shared object file"]),
        ("libm.so.6", ["libm.so.6 has no PQconninfoParse"]),
    ])
    func aLibraryThatCannotBeUsedIsNamedWithAdvice(name: String, reasons: [String]) {
        let error = #expect(throws: PostgresError.self) { try PostgresLibrary.open([name]) }
        #expect(error?.kind == .libraryMissing)
        let text = error?.description ?? ""
        #expect(text.hasPrefix("PostgreSQL needs \(name); "), "\(text)")
        for part in reasons + ["install libpq"] { #expect(text.contains(part), "\(text)") }
    }
}

@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresConnectionTests {
    /// Runs a body with a connection to a new database, or to the given address.
    private func connected(
        _ address: String? = nil, within bound: Duration = .seconds(60),
        _ body: @escaping @Sendable (PostgresConnection) throws -> Void = { _ in }
    ) async throws {
        let address = if let address { address } else { try await PostgresServer.shared().makeDatabase() }
        try await offPool { try body(PostgresConnection(address, within: bound)) }
    }

    @Test func anAnswerThatDoesNotComeIsBoundedAndEndsTheConnection() async throws {
        try await connected { connection in
            let error = #expect(throws: PostgresError.self) {
                _ = try connection.run("SELECT pg_sleep(1000)::text", within: .milliseconds(50))
            }
            #expect(error?.kind == .lost)
            let again = #expect(throws: PostgresError.self) { _ = try connection.run("SELECT 1") }
            #expect(again?.description == error?.description)
        }
    }

    /// The statement is prepared anew on the next connection, so the refusal is no reason to fail.
    @Test func aPreparedStatementWithAnotherResultAsksForAnotherConnection() async throws {
        let error = await #expect(throws: PostgresError.self) {
            try await connected { connection in
                for statement in [
                    "CREATE TABLE a (b text)", "PREPARE c AS SELECT * FROM a", "EXECUTE c",
                    "ALTER TABLE a ADD COLUMN d text", "EXECUTE c",
                ] { try connection.run(statement) }
            }
        }
        #expect(error?.state == "0A000" && error?.asksForConnection == true, "\(String(describing: error))")
        #expect(error?.advice?.hasPrefix("if the server is a standby") == true)
    }

    @Test func aWaitForMessagesEndsAtItsBoundOrByItsWakeup() async throws {
        try await connected { connection in
            #expect(try !connection.isNotified(within: .milliseconds(1)))
            let pipe = Pipe()
            try pipe.fileHandleForWriting.write(contentsOf: Data([1]))
            let wakeup = pipe.fileHandleForReading.fileDescriptor
            #expect(try !connection.isNotified(within: .seconds(600), wakeup: wakeup))
            #expect(try connection.run("SELECT 1::int8").int(0, 0) == 1)
        }
    }

    @Test(arguments: [
        "postgres://me:s3cret@w0rd@[::1", "host=localhost s3cret", "postgres:///a?s3cret=1",
        "postgres://me:s3cret/word@localhost/a", "postgres://me:word/s3cret@localhost/a",
    ])
    func anAddressThatCannotBeReadIsNotRepeated(address: String) async {
        let error = await #expect(throws: PostgresError.self) { try await connected(address) }
        #expect(error?.kind == .addressInvalid)
        #expect(error?.description.contains("s3cret") == false)
    }

    @Test func aServerThatDoesNotAnswerIsUnreachable() async throws {
        // The kernel accepts connections for the listener, which sends nothing.
        let listener = try LoopbackPort.silent()
        let address = "postgres://127.0.0.1:\(listener.port)/a?sslmode=disable"
        let error = await #expect(throws: PostgresError.self) {
            try await connected(address, within: .milliseconds(50))
        }
        #expect(error?.kind == .unreachable)
        #expect(error?.description == "no connection to the database: the server does not respond")
    }
}
