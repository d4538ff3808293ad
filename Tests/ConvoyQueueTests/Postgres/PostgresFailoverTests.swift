import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// A primary dies while it commits, its standby is promoted, and others commit there before the caller is back.
@Suite(.serialized, .enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresFailoverTests {
    private static var turns: Int {
        ProcessInfo.processInfo.environment["CONVOY_FAILOVERS"].flatMap(Int.init) ?? 1
    }

    @Test func nothingIsAcknowledgedThatTheNewPrimaryDoesNotHave() async throws {
        for _ in 1...Self.turns { try await failOver() }
    }

    private func failOver() async throws {
        let place = try StorePlace()
        let name = place.directory.appending(path: "server")
        let primary = try await PostgresServer()
        let database = try await primary.makeDatabase()
        try primary.take(name)
        let parts = database.split(separator: "?")
        let address = "\(parts[0])?host=\(name.path)&user=convoy"
        let store = try await PostgresStore(address, time: nil, patience: .seconds(100))
        _ = try await store.add([.test("earlier"), .test("claimed")])
        try await sql(
            address,
            """
            CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NULL; END $body$
            """,
            """
            CREATE CONSTRAINT TRIGGER pause AFTER INSERT OR UPDATE ON convoy_jobs DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION pause()
            """)
        let standby = try await PostgresServer(standbyOf: primary)
        // Both are held in their COMMIT when the primary dies.
        let gate = try await onThread { () -> Held in
            let connection = try PostgresConnection(address, within: .seconds(60))
            try connection.run("SELECT 1 FROM (SELECT pg_advisory_lock(77)) AS a")
            return Held(connection: connection)
        }
        async let additions = store.add([.test("a")])
        async let exchange = store.exchange([], claiming: ClaimRequest(limit: 1, lease: .seconds(600)))
        try await onThread {
            for _ in 1...10_000 {
                let rows = try gate.connection.run(
                    """
                    SELECT count(*), pg_sleep(0.005)::text FROM pg_stat_activity
                    WHERE wait_event = 'advisory' AND datname = current_database()
                    """, within: .seconds(60))
                if try rows.int(0, 0) ?? 0 >= 2 { return }
            }
            throw PostgresError(.lost, "nothing waits for the gate")
        }
        try await primary.stop()
        try await standby.promote()
        // The numbers of transactions of before are others' now.
        let promoted = standby.address(of: String(parts[0].split(separator: "/").last ?? ""))
        for _ in 1...20 { try await sql(promoted, "SELECT pg_current_xact_id()::text") }
        try standby.take(name)
        #expect(try await additions == [JobAddition(id: "a", outcome: .added)])
        #expect(try await exchange.jobs.ids == ["earlier"])
        #expect(try await store.states() == ["earlier": .claimed, "claimed": .waiting, "a": .waiting])
        await store.close()
        _ = gate
    }

    private struct Held: @unchecked Sendable {
        // @unchecked: one thread after the other.
        let connection: PostgresConnection
    }
}
