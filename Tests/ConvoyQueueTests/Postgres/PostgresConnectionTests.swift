import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

@Suite struct PostgresLibraryTests {
    @Test func aMissingLibraryIsNamedWithAdvice() {
        let error = #expect(throws: PostgresError.self) { try PostgresLibrary.open(["libpq-of-no-system.so.5"]) }
        #expect(error?.kind == .libraryMissing)
        let text = error?.description ?? ""
        #expect(text.hasPrefix("PostgreSQL needs libpq-of-no-system.so.5; "), "\(text)")
        #expect(text.contains("install libpq"), "\(text)")
        #expect(text.contains("cannot open shared object file"), "\(text)")
    }

    @Test func aLibraryWithoutAFunctionIsNotUsed() {
        let error = #expect(throws: PostgresError.self) { try PostgresLibrary.open(["libm.so.6"]) }
        #expect(error?.description.contains("libm.so.6 has no PQconninfoParse") == true)
    }
}

@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresConnectionTests {
    /// Runs a body with a connection to a new database.
    private func connected(_ body: @escaping @Sendable (PostgresConnection) throws -> Void) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        try await offPool { try body(PostgresConnection(address, within: .seconds(60))) }
    }

    /// Runs a body on a separate thread and returns its error.
    private func failure(_ body: @escaping @Sendable () throws -> Void) async -> PostgresError? {
        await offPool {
            do {
                try body()
                return nil
            } catch {
                return error as? PostgresError
            }
        }
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
        let address = try await PostgresServer.shared().makeDatabase()
        let error = await failure {
            let connection = try PostgresConnection(address, within: .seconds(60))
            try connection.run("CREATE TABLE a (b text)")
            try connection.run("PREPARE c AS SELECT * FROM a")
            try connection.run("EXECUTE c")
            try connection.run("ALTER TABLE a ADD COLUMN d text")
            try connection.run("EXECUTE c")
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

    @Test func anAddressThatCannotBeReadIsNotRepeated() async {
        let addresses = [
            "postgres://me:s3cret@w0rd@[::1", "host=localhost s3cret", "postgres:///a?s3cret=1",
            "postgres://me:s3cret/word@localhost/a", "postgres://me:word/s3cret@localhost/a",
        ]
        for address in addresses {
            let error = await failure { _ = try PostgresConnection(address, within: .seconds(60)) }
            #expect(error?.kind == .addressInvalid)
            #expect(error?.description.contains("s3cret") == false)
        }
    }

    @Test func aServerThatDoesNotAnswerIsUnreachable() async throws {
        // The kernel accepts connections for the listener, which sends nothing.
        let listener = try LoopbackPort.silent()
        let error = await failure {
            _ = try PostgresConnection(
                "postgres://127.0.0.1:\(listener.port)/a?sslmode=disable", within: .milliseconds(50))
        }
        #expect(error?.kind == .unreachable)
        #expect(error?.description == "no connection to the database: the server does not respond")
    }
}
