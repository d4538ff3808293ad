import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests that no acknowledged commit is lost when the primary dies and its standby is promoted.
///
/// The primary dies during a commit, or at a random moment.
@Suite(.serialized, .enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresFailoverTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private static var turns: Int {
        ProcessInfo.processInfo.environment["CONVOY_FAILOVERS"].flatMap(Int.init) ?? 1
    }

    @Test func nothingIsAcknowledgedThatTheNewPrimaryDoesNotHave() async throws {
        for _ in 1...Self.turns {
            let (primary, database) = try await makePrimary()
            let store = try await PostgresStore(address(of: database), time: nil, patience: .seconds(100))
            _ = try await store.add([.test("earlier"), .test("claimed")])
            // Both transactions are blocked in their COMMIT when the primary dies.
            let gate = try await OtherClient.gate(database, after: "INSERT OR UPDATE ON convoy_jobs")
            let standby = try await PostgresServer(standbyOf: primary)
            async let additions = store.add([.test("a")])
            async let exchange = store.exchange([], claiming: ClaimRequest(limit: 1, lease: .seconds(600)))
            try await offPool { try gate.waitForOthers(2) }
            try await primary.stop()
            try await standby.promote()
            // New transactions get the transaction ids that the old primary used.
            let promoted = PostgresServer.address(database, at: standby.directory)
            for _ in 1...20 { try await sql(promoted, "SELECT pg_current_xact_id()::text") }
            try standby.take(name)
            #expect(try await additions == [JobAddition(id: "a", outcome: .added)])
            #expect(try await exchange.jobs.ids == ["earlier"])
            #expect(try await store.states() == ["earlier": .claimed, "claimed": .waiting, "a": .waiting])
            await store.close()
            _ = gate
        }
    }

    private static let (jobCount, adderCount) = (240, 4)

    /// `CONVOY_FAILOVERS=50` in the environment runs 50 turns, as for the published measurements.
    @Test func jobsSurvivePromotionsAtRandomMoments() async throws {
        var requests = 0
        for turn in 1...Self.turns { requests += try await promoteWhileOthersWork(turn) }
        print("\(Self.turns) promotions: \(requests) requests of \(Self.turns * Self.jobCount) jobs")
    }

    /// Adders and workers continue while the primary dies and its standby is promoted.
    ///
    /// Returns the number of sent requests.
    private func promoteWhileOthersWork(_ turn: Int) async throws -> Int {
        let (primary, database) = try await makePrimary()
        let standby = try await PostgresServer(standbyOf: primary)
        try await waitForStandby(of: database)
        let server = try KeyedServer()
        let adding = try await PostgresStore(address(of: database), time: nil, patience: .seconds(100))
        let queues = [try await worker(database), try await worker(database)]
        for queue in queues { queue.start(otherwise: takesAll) }
        let acknowledged = Told<String>()
        let moment = Int.random(in: 1..<Self.jobCount - 20)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for adder in 0..<Self.adderCount {
                group.addTask {
                    for number in 0..<Self.jobCount / Self.adderCount {
                        let job = try server.job("\(adder)-\(number)") {
                            $0.group = number % 7 == 0 ? "group \(adder)" : nil
                        }
                        let outcome = try await adding.add([job]).first?.outcome
                        #expect(outcome == .added, "turn \(turn)")
                        acknowledged.tell(job.id)
                    }
                }
            }
            await look { acknowledged.all.count >= moment }
            try await primary.stop()
            try await standby.promote()
            try standby.take(name)
            try await group.waitForAll()
        }
        for queue in queues { await queue.drain() }
        let states = try await adding.states()
        let lost = acknowledged.all.filter { states[$0] != .done }
        #expect(lost.isEmpty && acknowledged.all.count == Self.jobCount, "turn \(turn), after \(moment): \(lost)")
        let seen = server.all
        #expect(seen.keys.count == Self.jobCount && seen.keys.values.allSatisfy { $0.count == 1 }, "turn \(turn)")
        for queue in queues { await queue.close() }
        await adding.close()
        return seen.requestCount
    }

    /// The name that leads to the primary, whichever server that is.
    private var name: URL { place.directory.appending(path: "server") }

    private func address(of database: String) -> String { PostgresServer.address(database, at: name.path) }

    private func makePrimary() async throws -> (server: PostgresServer, database: String) {
        let primary = try await PostgresServer()
        try primary.take(name)
        return (primary, try await primary.makeDatabase())
    }

    private func worker(_ database: String) async throws -> DurableQueue {
        var configuration = DurableQueue.Configuration()
        configuration.maxClaimedJobCount = 16
        configuration.lease = .seconds(2)
        return DurableQueue(
            store: try await PostgresStore(address(of: database), time: nil, patience: .seconds(100)),
            manager: RequestManager(), configuration: configuration)
    }

    /// Makes the primary acknowledge a commit only after the standby has received the commit.
    private func waitForStandby(of database: String) async throws {
        try await sql(database, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        try await offPool {
            try OtherClient(database).wait(for: "count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'")
        }
    }
}
