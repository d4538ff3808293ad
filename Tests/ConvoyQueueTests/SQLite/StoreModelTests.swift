import Convoy
import ConvoyQueue
import Foundation
import Testing

/// Tests that random changes of several instances keep the rules of groups, keys, dependencies and counts.
@Suite(.serialized) struct StoreModelTests {
    @Test(arguments: 1...LongRuns.count(3, long: 100))
    func concurrentChangesKeepTheRules(round: Int) async throws {
        let place = try StorePlace()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<2 {
                group.addTask {
                    let store = try SQLiteStore(at: place.file, clock: place.clock)
                    for turn in 0..<30 { try await store.changeAtRandom("\(round)-\(number)-\(turn)") }
                    await store.close()
                }
            }
            try await group.waitForAll()
        }
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        try await check(store)
        _ = try await store.acknowledge(.all)
        while try await store.status().unfinishedCount + store.retry(.all) > 0 {
            guard try await !store.finishAll().isEmpty else { break }
        }
        try await check(store)
        #expect(try await store.status().unfinishedCount == 0)
    }

    /// Compares each job's state with those of the jobs that it depends on, and of its group and key.
    private func check(_ store: any Store) async throws {
        let records = try await store.jobs(.all, after: 0, limit: 10_000)
        let states = Dictionary(uniqueKeysWithValues: records.map { ($0.job.id, $0.state) })
        func isBehind(_ record: JobRecord, _ isMeant: (Job) -> Bool) -> Bool {
            records.contains { $0.position < record.position && !$0.state.isFinished && isMeant($0.job) }
        }
        for record in records {
            let (job, state) = (record.job, record.state)
            let needed = Set(job.dependencies).compactMap { states[$0] }
            if needed.contains(.cancelled) { #expect(state == .cancelled || state == .done, "\(record)") }
            guard state == .waiting || state == .blocked else { continue }
            let holds = JobHolds(
                dependencies: needed.count { $0 != .done },
                isBehindGroup: job.group != nil && isBehind(record) { $0.group == job.group },
                isBehindKey: job.uniqueness != nil && isBehind(record) { $0.uniqueness?.key == job.uniqueness?.key })
            #expect(record.life.holds == holds && (state == .waiting) == holds.isEmpty, "\(record)")
        }
        for state in JobState.allCases {
            #expect(try await store.status()[state] == states.values.count { $0 == state }, "\(state)")
        }
    }
}
