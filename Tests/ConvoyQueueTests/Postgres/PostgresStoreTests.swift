import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests cases that only a server has: lost connections, restarts, conflicting transactions.
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
            UPDATE convoy_contents AS c SET url = 'http://[' FROM convoy_jobs AS j
            WHERE j.position = c.position AND id = 'a'
            """,
            """
            UPDATE convoy_contents AS c SET header_fields = 'no' FROM convoy_jobs AS j
            WHERE j.position = c.position AND id = 'c'
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
            let connection = try PostgresConnection(address, within: .seconds(60))
            for statement in PostgresSchema.migrations.first ?? [] { try connection.run(statement) }
            try connection.run("CREATE TABLE convoy_schema (version int8 NOT NULL)")
            try connection.run("INSERT INTO convoy_schema VALUES (1)")
            try connection.run(
                "INSERT INTO convoy_jobs (id, kind, state, priority, added) VALUES ('a', 'test', 0, 0, 0)")
            try connection.run(
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
        let request = ClaimRequest(limit: 10, lease: .seconds(60))
        let exchange = try await store.exchange([], claiming: request)
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
        #expect(try await reader.status()[.waiting] == 1)
        #expect(try await reader.job("a")?.job.id == "a")
        #expect(try await reader.blockers(of: "b").map(\.id) == ["a"])
        // Closing is one search and the end of two connections, without attempts to write.
        let before = proxy.roundTripCount
        await reader.close()
        #expect(proxy.roundTripCount - before <= 3)
        // The connections of this store lead to the standby.
        let place = try StorePlace()
        let name = place.directory.appending(path: "server")
        try standby.take(name)
        let address = "\(database.split(separator: "?")[0])?host=\(name.path)&user=convoy"
        let impatient = try await PostgresStore(address, time: nil, patience: .zero)
        let error = await #expect(throws: QueueError.self) { try await impatient.add(.test("c")) }
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
        let error = await #expect(throws: QueueError.self) { try await store.add(.test("a")) }
        #expect(error?.code == .unavailable)
        await store.close()
        let closed = await #expect(throws: QueueError.self) { try await store.add(.test("a")) }
        #expect(closed?.code == .closed)
    }

    @Test func aNewerSchemaIsNotChanged() async throws {
        await (try await PostgresStore(address)).close()
        try await sql(address, "UPDATE convoy_schema SET version = 99")
        let error = await #expect(throws: QueueError.self) { _ = try await PostgresStore(address) }
        #expect(error?.code == .newerSchema && error?.message.contains("99") == true)
    }

    /// A trigger ends the connection during the first commit, so the server rolls back.
    @Test func aCommitThatFailedUnseenIsRepeated() async throws {
        let store = try await PostgresStore(address)
        try await sql(
            address, "CREATE SEQUENCE deaths",
            """
            CREATE FUNCTION die_once() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN
                IF nextval('deaths') = 1 THEN
                    PERFORM pg_terminate_backend(pg_backend_pid());
                    PERFORM pg_sleep(60);
                END IF;
                RETURN NULL;
            END $body$
            """,
            """
            CREATE CONSTRAINT TRIGGER die_once AFTER INSERT ON convoy_contents DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION die_once()
            """)
        #expect(try await store.add([.test("a")]) == [JobAddition(id: "a", outcome: .added)])
        #expect(try await store.status()[.waiting] == 1)
    }

    /// The server commits but cannot acknowledge the commit, because it waits for a standby that does not exist.
    ///
    /// Then the test ends the connection.
    @Test func aCommitThatSucceededUnseenIsNotRepeated() async throws {
        let server = try await PostgresServer()
        let address = try await server.makeDatabase()
        let store = try await PostgresStore(address)
        try await sql(address, "ALTER SYSTEM SET synchronous_standby_names = 'none'")
        try await server.stop()
        try await server.start()
        async let additions = store.add([.test("a")])
        try await offPool {
            let connection = try PostgresConnection(address, within: .seconds(60))
            for _ in 1...10_000 {
                let rows = try connection.run(
                    """
                    SELECT count(pg_terminate_backend(pid, 60000)), pg_sleep(0.01)::text FROM pg_stat_activity
                    WHERE wait_event = 'SyncRep'
                    """, within: .seconds(120))
                if try rows.int(0, 0) == 1 { break }
            }
            try connection.run("ALTER SYSTEM SET synchronous_standby_names = ''")
            try connection.run("SELECT pg_reload_conf()")
        }
        #expect(try await additions == [JobAddition(id: "a", outcome: .added)])
        #expect(try await store.status()[.waiting] == 1)
    }
}
