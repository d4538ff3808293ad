import Convoy
import ConvoyPostgres
import ConvoyQueue
import ConvoySQLite
import ConvoyTesting
import Foundation
import Testing

/// Edits rows by hand, with numbers at the ends of their range: nothing traps, and other jobs continue.
@Suite struct EditedRowsTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private static let ends: [Int64] = [.min, .max]

    private func use(_ store: any Store) async throws {
        for job in (try? await store.claim(9, answered: .all)) ?? [] {
            let attempt = JobAttempt(started: place.clock.date)
            _ = try? await store.exchange(
                [Settlement(job.claim, .retry(after: .seconds(1)), attempt: attempt)], claiming: nil)
        }
        _ = try? await store.exchange([], claiming: ClaimRequest(limit: 9, lease: .seconds(5), kinds: .only([])))
        _ = try? await store.renew([], for: .seconds(9))
        _ = try? await store.job("edited")
        let queue = DurableQueue(store: store, manager: RequestManager())
        _ = try? await queue.why("edited")
        _ = try? await store.status()
        _ = try? await store.add([.test(UUID().uuidString)])
        _ = try? await store.retry(.all)
        _ = try? await store.release()
        _ = try await store.cancel(.all)
        _ = try await store.delete(.all)
    }

    @Test(arguments: [
        "due", "attempt_count", "claims", "lapses", "expires", "not_before", "added", "missing", "behind",
    ])
    func onSQLite(column: String) async throws {
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        let connection = try SQLiteConnection(place.file.path)
        for end in Self.ends {
            for state in ["", ", state = 1", ", state = 2"] {
                _ = try await store.add([.test("edited"), .test("other")])
                try connection.execute("UPDATE job SET \(column) = \(end)\(state) WHERE id = 'edited'")
                try await use(store)
            }
        }
    }

    @Test(arguments: ["last", "shift"])
    func theClockOnSQLite(column: String) async throws {
        for end in Self.ends {
            await (try SQLiteStore(at: place.file, clock: place.clock)).close()
            let connection = try SQLiteConnection(place.file.path)
            try connection.execute("UPDATE clock SET \(column) = \(end), boot = 'another'")
            let store = try SQLiteStore(at: place.file, clock: place.clock)
            try await store.add(.test("other"))
            #expect(try await store.claim().ids == ["other"])
            try await use(store)
            await store.close()
        }
    }

    @Test(
        .enabled(if: PostgresServer.isInstalled, PostgresServer.reason),
        arguments: ["due", "attempt_count", "claim_count", "lapses", "needs"])
    func onPostgres(column: String) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        let isShort = ["lapses", "needs"].contains(column)
        for end in isShort ? [Int64(Int32.min), Int64(Int32.max)] : Self.ends {
            for state in ["", ", state = 1"] {
                _ = try await store.add([.test("edited"), .test("other")])
                try await sql(address, "UPDATE convoy_jobs SET \(column) = \(end)\(state) WHERE id = 'edited'")
                try await use(store)
            }
        }
    }
}
