import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests cases that only a server has: lost connections, restarts, conflicting transactions, plans of statements.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresStoreTests {
    let address: String

    init() async throws { address = try await PostgresServer.shared().makeDatabase() }

    /// The test damages the row, as an edit by hand could.
    @Test func aRowThatCannotBeReadIsADeadLetter() async throws {
        let store = try await PostgresStore(address)
        _ = try await store.add([
            .test("a") { $0.group = "g" }, .test("b") { $0.group = "g" }, .test("c"), .test("d"),
        ])
        try await sql(
            address,
            """
            UPDATE convoy_contents AS c SET url = CASE WHEN id = 'a' THEN 'http://[' ELSE url END,
                header_fields = CASE WHEN id = 'c' THEN 'no' ELSE header_fields END
            FROM convoy_jobs AS j WHERE j.position = c.position
            """, "UPDATE convoy_jobs SET attempts = '{no}' WHERE id = 'd'")
        let exchange = try await store.exchange([], claiming: ClaimRequest(limit: 10, lease: .seconds(60)))
        #expect(exchange.jobs.ids == ["d"] && exchange.next == .zero)
        #expect(try await store.claim().ids == ["b"])
        #expect(try await store.states() == ["a": .dead, "b": .claimed, "c": .dead, "d": .claimed])
        #expect(try await store.job("a")?.failure == "its URL in the database cannot be read")
        #expect(try await store.job("c")?.failure == "its header fields in the database cannot be read")
    }

    @Test func tablesOfTheFirstVersionAreBroughtUpToDate() async throws {
        try await offPool {
            let client = try OtherClient(address)
            for statement in PostgresSchema.migrations[0] { try client.run(statement) }
            try client.run("CREATE TABLE convoy_schema AS SELECT 1::int8 AS version")
            try client.run("INSERT INTO convoy_jobs (id, kind, state, priority, added) VALUES ('a', 'test', 0, 0, 0)")
            try client.run(
                """
                INSERT INTO convoy_contents (position, method, url, header_fields, tags, idempotency_key)
                SELECT position, 'POST', 'http://127.0.0.1:9/', '[]', '{}', 'key' FROM convoy_jobs
                """)
        }
        let store = try await PostgresStore(address)
        let claimed = try #require(try await store.claim().first)
        #expect(claimed.job.id == "a" && claimed.lapseCount == 0 && !claimed.job.request.followsRedirectsAsGet)
        #expect(try await store.settle(claimed, .done))
    }

    /// PostgreSQL does not notify the store when another program releases its lock.
    @Test(arguments: ["TRUE", "due IS NOT NULL"])
    func aRowThatAStrangerHasLockedIsLookedForSoon(condition: String) async throws {
        let store = try await PostgresStore(address)
        try await store.add(.test("a"))
        if condition != "TRUE" {
            let claimed = try #require(try await store.claim().first)
            #expect(try await store.settle(claimed, .retry(after: .milliseconds(1))))
        }
        let search = "SELECT 1 FROM convoy_jobs WHERE \(condition) FOR UPDATE"
        let stranger = try await offPool { try OtherClient(address, "BEGIN", search) }
        let exchange = try await store.exchange([], claiming: ClaimRequest(limit: 10, lease: .seconds(60)))
        let next = try #require(exchange.next)
        #expect(exchange.jobs.isEmpty && next > .zero && next <= .seconds(1))
        try await offPool { try stranger.run("COMMIT") }
        #expect(try await store.claim().ids == ["a"])
    }

    @Test func lostConnectionsAreMadeAgain() async throws {
        let store = try await PostgresStore(address)
        var changes = store.changes().makeAsyncIterator()
        _ = await changes.next()
        try await store.add(.test("a"))
        try await disconnect(address)
        try await store.add(.test("b"))
        #expect(try await store.claim().ids == ["a", "b"])
        try await disconnect(address)
        #expect(try await store.renew([Claim(id: "a", token: 1)], for: .seconds(60)) == [])
        // The listening connection is reopened too, and reports that the store may have missed changes.
        #expect(await changes.next() != nil)
        await store.close()
    }

    /// After a failover, an address may lead to the old primary, which is now a standby.
    @Test func aStandbyIsReadAndLeftForThePrimary() async throws {
        let primary = try await PostgresServer()
        let database = try await primary.makeDatabase()
        let first = try await PostgresStore(database)
        _ = try await first.add([.test("a"), .test("b") { $0.dependencies = ["a"] }])
        await first.close()
        let standby = try await PostgresServer(standbyOf: primary)
        let proxy = try PostgresProxy(to: standby)
        let reader = try await PostgresStore(proxy.address(database), time: nil, patience: .milliseconds(500))
        #expect(try await reader.states() == ["a": .waiting, "b": .blocked])
        #expect(try await reader.blockers(of: "b").map(\.id) == ["a"])
        // Closing is one search and the end of two connections, without attempts to write.
        let before = proxy.roundTripCount
        await reader.close()
        #expect(proxy.roundTripCount - before <= 3)
        // The connections of this store lead to the standby.
        let place = try StorePlace()
        let name = place.directory.appending(path: "server")
        try standby.take(name)
        let address = PostgresServer.address(database, at: name.path)
        let impatient = try await PostgresStore(address, time: nil, patience: .zero)
        let error = await failure { try await impatient.add(.test("c")) }
        #expect(error?.code == .unavailable && error?.message.contains("use the address of the primary") == true)
        await impatient.close()
        let store = try await PostgresStore(address, time: nil, patience: .seconds(100))
        try primary.take(name)
        #expect(try await store.claim().ids == ["a"])
        try await store.add(.test("c"))
        #expect(try await store.states() == ["a": .claimed, "b": .blocked, "c": .waiting])
    }

    @Test func aServerThatIsAwayIsSaid() async throws {
        let server = try await PostgresServer()
        let address = try await server.makeDatabase()
        let store = try await PostgresStore(address, time: nil, patience: .milliseconds(20))
        try await server.stop()
        #expect(await failure { try await store.add(.test("a")) }?.code == .unavailable)
        await store.close()
        #expect(await failure { try await store.add(.test("a")) }?.code == .closed)
    }

    /// The connection ends during the first commit, so the server rolls back.
    @Test func aCommitThatFailedUnseenIsRepeated() async throws {
        let store = try await PostgresStore(address)
        let gate = try await OtherClient.gate(address, after: "INSERT ON convoy_contents")
        async let additions = store.add([.test("a")])
        try await offPool {
            try gate.waitForOthers(1)
            try gate.run("SELECT count(pg_terminate_backend(pid, 60000)) \(OtherClient.waiting)")
            try gate.run("SELECT pg_advisory_unlock(77)")
        }
        #expect(try await additions == [JobAddition(id: "a", outcome: .added)])
        #expect(try await store.status()[.waiting] == 1)
    }

    /// The scan below the step that locks rows of `convoy_jobs`.
    private func lockedScan(_ statement: PostgresStatement) async throws -> String {
        let plan = try await offPool {
            let connection = try PostgresConnection(address, within: .seconds(60))
            try connection.prepareForQueue()
            let explained = PostgresStatement("EXPLAIN ANALYZE \(statement.text)", statement.parameters)
            let rows = try connection.transact([PostgresConnection.time, explained])[1]
            return try (0..<rows.count).map { try rows.text($0, 0) ?? "" }
        }
        let lock = try #require(plan.firstIndex { $0.contains("LockRows") })
        return try #require(plan[lock...].first { $0.contains(" on convoy_jobs") })
    }

    /// The plans must not depend on statistics, which are always outdated; after the first jobs there are none.
    ///
    /// A claim must look up each candidate by its position, and a settlement each job by its id. Without statistics
    /// the planner prefers an index of all ready or all claimed jobs, and reads all of it for each job.
    @Test func claimsAndSettlementsReadOnlyTheirJobs() async throws {
        let store = try await PostgresStore(address)
        _ = try await store.add((0..<2_000).map { try .test("\($0)") })
        var request = ClaimRequest(limit: 256, lease: .seconds(60), answeredKinds: .all)
        (request.maxPerHost, request.rooms) = (128, ["127.0.0.1:9": 32])
        let claim = try #require(PostgresRules.claim(request, by: "owner", noting: "number"))
        let scan = try await lockedScan(claim)
        #expect(scan.contains("convoy_jobs_pkey") && scan.contains("loops=32"), "\(scan)")
        #expect(try await store.status()[.claimed] == 32)
        let settlements = (0..<32).map {
            Settlement(Claim(id: "\($0)", token: 1), .done, attempt: JobAttempt(started: .now))
        }
        let exchange = PostgresExchange(settlements: settlements, request: nil, owner: "owner")
        let statements = try exchange.whole("number", nil).statements
        let settling = try await lockedScan(try #require(statements.first))
        #expect(settling.contains("convoy_jobs_id_key"), "\(settling)")
    }
}
