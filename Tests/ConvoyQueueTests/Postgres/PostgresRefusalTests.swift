import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests databases and jobs that the store rejects.
///
/// Each error says what is wrong and what to do.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresRefusalTests {
    private func expectRefusal(_ address: String, _ code: QueueError.Code, _ parts: String...) async {
        let error = await failure { _ = try await PostgresStore(address) }
        #expect(error?.code == code)
        for part in parts { #expect(error?.message.contains(part) == true, "\(error as Any)") }
    }

    @Test(arguments: ["SQL_ASCII", "LATIN1"])
    func aDatabaseThatIsNotUTF8(encoding: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase("ENCODING '\(encoding)' LOCALE 'C'")
        await expectRefusal(address, .unavailable, "has the encoding \(encoding)", "ENCODING 'UTF8'")
    }

    @Test(arguments: [
        "CREATE TABLE convoy_jobs (a int)", "CREATE TABLE convoy_schema (a int)",
        "CREATE VIEW convoy_schema AS SELECT 1 AS a",
        "CREATE TABLE convoy_schema AS SELECT 'one' AS version",
        "CREATE TABLE convoy_schema AS SELECT -1::int8 AS version",
    ])
    func tablesOfAnotherProgram(statement: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        try await sql(address, statement)
        await expectRefusal(address, .foreignFile, "use another database")
        // In another schema the queue creates its own tables.
        try await sql(address, "CREATE SCHEMA own")
        let store = try await PostgresStore(address + "&options=-csearch_path%3Down")
        try await store.add(.test("a"))
    }

    @Test func aNewerSchemaIsNotChanged() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        await (try await PostgresStore(address)).close()
        try await sql(address, "UPDATE convoy_schema SET version = 99")
        await expectRefusal(address, .newerSchema, "99")
    }

    @Test func noRightToMakeTables() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        try await sql(
            address, "REVOKE CREATE ON SCHEMA public FROM public", "DROP ROLE IF EXISTS guest",
            "CREATE ROLE guest LOGIN")
        let guest = address.replacing("user=convoy", with: "user=guest")
        await expectRefusal(guest, .notPermitted, "grant the role CREATE on the schema")
        await (try await PostgresStore(address)).close()
        // The tables belong to another role, and the role `guest` may not read them.
        await expectRefusal(guest, .notPermitted)
    }

    @Test(arguments: ["none", "%22$user%22", "none,missing"])
    func aSchemaThatDoesNotExist(searchPath: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase() + "&options=-csearch_path%3D\(searchPath)"
        await expectRefusal(address, .unavailable, "SQLSTATE 3F000", "create the schema with CREATE SCHEMA")
    }

    /// The server's session may belong to a pooler, which gives it to other clients.
    @Test(arguments: [
        "SELECT 1", "CREATE TABLE convoy_jobs (a int)", "CREATE TABLE convoy_schema AS SELECT 99 AS version",
    ])
    func noParameterOfTheSessionIsChanged(statement: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        try await sql(address, statement)
        let counts = try await offPool {
            let connection = try PostgresConnection(address, within: .seconds(60))
            // BEGIN sets parameters such as `transaction_read_only`.
            let count = PostgresStatement(
                "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'transaction_%'")
            try? connection.prepareForQueue()
            let after = try connection.run([count])[0].int(0, 0)
            let during = try connection.transact([PostgresConnection.time, count])[1].int(0, 0)
            return [after, during, try connection.run([count])[0].int(0, 0)]
        }
        #expect(counts == [0, 9, 0])
    }

    /// In transaction mode, a pooler changes the server's session between statements.
    @Test(arguments: [("PREPARE convoy_2 AS SELECT 1", "42P05"), ("DEALLOCATE ALL", "26000")])
    func aPoolerInTransactionMode(statement: String, state: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let error = await #expect(throws: (any Error).self) {
            try await offPool {
                let connection = try PostgresConnection(address, within: .seconds(60))
                try connection.run(statement)
                try connection.prepareForQueue()
                try connection.run(statement)
            }
        }
        let reported = PostgresSession.queueError(try #require(error))
        #expect(reported.code == .unavailable)
        #expect(reported.message.contains("SQLSTATE \(state)"), "\(reported)")
        #expect(reported.message.contains("let the pooler use session mode"), "\(reported)")
    }

    @Test func aNULInAText() async throws {
        let store = try await PostgresStore(PostgresServer.shared().makeDatabase())
        let bad: [(String, (inout Job) -> Void)] = [
            ("kind", { $0.kind = "a\0b" }), ("group", { $0.group = "a\0b" }), ("tag", { $0.tags = ["a\0b"] }),
            ("key", { $0.uniqueness = .init(key: "a\0b", policy: .keep) }),
            ("dependency", { $0.dependencies = ["a\0b"] }),
            ("Idempotency-Key", { $0.idempotencyKey = "a\0b" }),
            ("X-A", { $0.request.headerFields.add("X-A", "a\0b") }),
        ]
        for (name, change) in bad {
            let error = await failure { _ = try await store.add([.test("good"), .test("bad", change)]) }
            #expect(error?.code == .invalidJob)
            #expect(error?.message.hasPrefix("bad: its \(name) contains NUL") == true, "\(error as Any)")
        }
        #expect(try await store.status().counts.isEmpty)
        #expect(await failure { _ = try await store.job("a\0b") }?.code == .invalidJob)
    }

    /// The store accepts a verdict with any text.
    ///
    /// If it rejected a verdict, the job would be sent again and again.
    @Test func aNULInAReasonIsMadeVisible() async throws {
        let store = try await PostgresStore(PostgresServer.shared().makeDatabase())
        _ = try await store.add([.test("a"), .test("b")])
        let claimed = try await store.claim()
        let attempt = JobAttempt(started: .now, milliseconds: 1, failure: nil, message: "x\0y")
        #expect(try await store.settle(claimed[0], .dead("x\0y"), attempt: attempt))
        let result = JobResult(
            statusCode: 500, headerFields: ["X-A": "x\0y"], body: Data([0, 1]), isBodyCut: false, failure: "x\0y")
        #expect(try await store.settle(claimed[1], .answered(result)))
        #expect(try await store.job("a")?.failure == "x\u{2400}y")
        #expect(try await store.job("a")?.attempts == [attempt])
        #expect(try await store.job("b")?.result?.failure == "x\u{2400}y")
        #expect(try await store.job("b")?.result?.body == Data([0, 1]))
    }

    @Test func largeBodies() async throws {
        let store = try await PostgresStore(PostgresServer.shared().makeDatabase())
        func job(_ id: String, _ bytes: Int) throws -> Job {
            try .test(id) { $0.request.body = .data(Data(repeating: 7, count: bytes)) }
        }
        let error = await failure { try await store.add(job("large", PostgresLimits.maxBodyBytes + 1)) }
        #expect(error?.code == .invalidJob)
        #expect(error?.message.contains("at most \(PostgresLimits.maxBodyBytes)") == true)
        // Together the jobs exceed the size of one statement.
        _ = try await store.add((1...5).map { try job("\($0)", PostgresLimits.maxStatementBytes / 2 - 1) })
        #expect(try await store.status()[.waiting] == 5)
        // The jobs also exceed the size of one claim.
        let request = ClaimRequest(limit: 10, lease: .seconds(600))
        for (ids, next) in [(["1", "2", "3"], Duration?.some(.zero)), (["4", "5"], nil)] {
            let exchange = try await store.exchange([], claiming: request)
            #expect(exchange.jobs.ids == ids && exchange.next == next)
        }
    }
}
