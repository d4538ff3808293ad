import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation
import Testing

/// Tests concurrent transactions of several stores.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresRacesTests {
    let address: String

    init() async throws { address = try await PostgresServer.shared().makeDatabase() }

    /// Runs a body on several new stores concurrently.
    private func each<Result: Sendable>(
        _ count: Int, _ body: @escaping @Sendable (Int, PostgresStore) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: Result.self) { [address] group in
            for number in 0..<count {
                group.addTask {
                    let store = try await PostgresStore(address)
                    let result = try await body(number, store)
                    await store.close()
                    return result
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func oneOfManyWithTheSameKeyIsKept() async throws {
        let additions = try await each(4) { number, store in
            try await store.add(
                (0..<10).map { turn in
                    try .test("\(number)-\(turn)") { $0.uniqueness = .init(key: "key", policy: .keep) }
                })
        }
        #expect(additions.joined().count { $0.outcome == .added } == 1)
        #expect(Set(additions.joined().map(\.id)).count == 1)
        let last = try await each(4) { number, store in
            for turn in 0..<10 {
                try await store.add(
                    .test("r\(number)-\(turn)") { $0.uniqueness = .init(key: "key", policy: .replace) })
            }
            return try await store.status()
        }
        #expect(last.allSatisfy { $0.unfinishedCount == 1 })
    }

    @Test func oneOfManyWithTheSameIdIsAdded() async throws {
        let ids = (0..<100).map { "\($0)" }
        let additions = try await each(4) { number, store in
            try await store.add((number % 2 == 0 ? ids : ids.reversed()).map { try .test($0) })
        }
        let added = additions.joined().filter { $0.outcome == .added }.map(\.id)
        #expect(added.count == ids.count && Set(added) == Set(ids))
    }

    @Test func aJobThatIsCancelledWhileClaimedIsLostToItsWorker() async throws {
        let (worker, caller) = (try await PostgresStore(address), try await PostgresStore(address))
        _ = try await caller.add((0..<40).map { try .test("\($0)") })
        let claimed = try await worker.claim()
        async let cancelled = caller.cancel(.all)
        async let exchange = worker.exchange(claimed.map { Settlement($0.claim, .done) }, claiming: nil)
        let (count, settled) = (try await cancelled, try await exchange.isSettled.count { $0 })
        #expect(count + settled == 40)
        let status = try await caller.status()
        #expect(status[.cancelled] == count && status[.done] == settled)
    }

    /// Several stores add, claim, settle, cancel, retry and delete the same jobs.
    ///
    /// `CONVOY_RACE_TURNS=500` in the environment runs more turns.
    @Test func concurrentChangesKeepTheRules() async throws {
        let turns = ProcessInfo.processInfo.environment["CONVOY_RACE_TURNS"].flatMap(Int.init) ?? 40
        _ = try await each(5) { number, store in
            for turn in 0..<turns { try await store.changeAtRandom("\(number)-\(turn)") }
        }
        try await checkPostgresRules(address)
        let store = try await PostgresStore(address)
        _ = try await store.acknowledge(.all)
        while try await store.status().unfinishedCount + store.retry(.all) > 0 {
            guard try await !store.finishAll().isEmpty else { break }
        }
        let rest = try await store.jobs(.all, after: 0, limit: 1_000).filter { !$0.state.isFinished }
        #expect(try await store.status().unfinishedCount == 0, "\(rest)")
        try await checkPostgresRules(address)
        await store.close()
    }
}
