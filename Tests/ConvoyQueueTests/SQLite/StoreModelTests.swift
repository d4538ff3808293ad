import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests that random operations on the database and on the model in memory have the same results.
@Suite struct StoreModelTests {
    static let seeds: ClosedRange<UInt64> = 1...UInt64(LongRuns.count(6, long: 200))

    @Test(arguments: seeds)
    func theDatabaseFollowsTheRules(seed: UInt64) async throws {
        let place = try StorePlace()
        var random = SeededGenerator(seed: seed)
        // Only shared state is compared. Both stores have two instances.
        let models = [MemoryStore(place.memory, clock: place.clock), MemoryStore(place.memory, clock: place.clock)]
        let stores = [
            try SQLiteStore(at: place.file, clock: place.clock), try SQLiteStore(at: place.file, clock: place.clock),
        ]
        var claims: [[Claim]] = [[], []]
        var count = 0
        for step in 1...150 {
            let side = Int.random(in: 0...1, using: &random)
            let (model, store) = (models[side], stores[side])
            switch Int.random(in: 0...11, using: &random) {
            case 0...2:
                let jobs = try (1...Int.random(in: 1...3, using: &random)).map { _ in
                    count += 1
                    return try job(count, place.clock.date, &random)
                }
                // Some jobs depend on a job that was not added or was deleted. Both stores reject the complete list.
                let expected = await outcome { try await model.add(jobs) }
                #expect(await outcome { try await store.add(jobs) } == expected, "step \(step)")
            case 3...5:
                var request = ClaimRequest(
                    limit: Int.random(in: 1...3, using: &random), lease: .seconds(30),
                    answeredKinds: Bool.random(using: &random) ? .all : .only([]))
                if Bool.random(using: &random) {
                    request.maxPerHost = 1
                    request.rooms = ["h0.example:80": Int.random(in: 0...2, using: &random)]
                }
                let expected = try await model.exchange([], claiming: request).jobs
                let found = try await store.exchange([], claiming: request).jobs
                #expect(found.map(\.claim) == expected.map(\.claim), "step \(step)")
                claims[side] += expected.map(\.claim)
            case 6...8:
                guard let claim = claims[side].randomElement(using: &random) else { continue }
                claims[side].removeAll { $0 == claim }
                let settlements = [Settlement(claim, verdict(&random), attempt: JobAttempt(started: place.clock.date))]
                let expected = try await model.exchange(settlements, claiming: nil).isSettled
                #expect(try await store.exchange(settlements, claiming: nil).isSettled == expected, "step \(step)")
            case 9:
                place.clock.advance(by: .seconds(Int.random(in: 1...40, using: &random)))
                for (model, store) in zip(models, stores) {
                    let kept = claims[model === models[0] ? 0 : 1]
                    let expected = try await model.renew(kept, for: .seconds(30))
                    #expect(try await store.renew(kept, for: .seconds(30)) == expected, "step \(step)")
                }
            case 10:
                let selection = JobSelection(ids: ["job \(Int.random(in: 1...max(1, count), using: &random))"])
                let expected = try await model.cancel(selection)
                #expect(try await store.cancel(selection) == expected, "step \(step)")
            default:
                let selection = JobSelection(kind: Bool.random(using: &random) ? "x" : "y")
                let (retried, acknowledged) = (try await model.retry(selection), try await model.acknowledge(selection))
                #expect(try await store.retry(selection) == retried, "step \(step)")
                #expect(try await store.acknowledge(selection) == acknowledged, "step \(step)")
                if Int.random(in: 0...3, using: &random) == 0 {
                    let age = Duration.seconds(Int.random(in: 1...100, using: &random))
                    let purged = try await model.purge(olderThan: age)
                    #expect(try await store.purge(olderThan: age) == purged, "step \(step)")
                }
                if Int.random(in: 0...3, using: &random) == 0 {
                    let deleted = try await model.delete(selection)
                    #expect(try await store.delete(selection) == deleted, "step \(step)")
                }
            }
            try await compare(model, store, "seed \(seed), step \(step)")
        }
        for store in stores { await store.close() }
    }

    private func compare(_ model: MemoryStore, _ store: SQLiteStore, _ moment: String) async throws {
        let (expected, found) = (
            try await model.jobs(.all, after: 0, limit: 1_000), try await store.jobs(.all, after: 0, limit: 1_000)
        )
        #expect(found.map(\.job.id) == expected.map(\.job.id), "\(moment)")
        for (one, other) in zip(found, expected) {
            #expect(one.state == other.state, "\(moment): \(one.job.id)")
            #expect(one.life.holds == other.life.holds, "\(moment): \(one.job.id)")
            let blockers = (try await store.blockers(of: one.job.id), try await model.blockers(of: one.job.id))
            #expect(Set(blockers.0) == Set(blockers.1), "\(moment): \(one.job.id)")
            #expect(one.life.claimCount == other.life.claimCount, "\(moment): \(one.job.id)")
            #expect(one.attemptCount == other.attemptCount, "\(moment): \(one.job.id)")
            #expect(one.failure == other.failure, "\(moment): \(one.job.id)")
        }
        #expect(try await store.status() == model.status(), "\(moment)")
    }

    private func job(_ number: Int, _ date: Date, _ random: inout SeededGenerator) throws -> Job {
        try .test("job \(number)", kind: Bool.random(using: &random) ? "x" : "y") { job in
            let host = Int.random(in: 0...2, using: &random)
            job.request.url = URL(string: "http://h\(host).example/") ?? job.request.url
            job.priority = [.low, .normal, .normal, .high].randomElement(using: &random) ?? .normal
            if Int.random(in: 0...3, using: &random) == 0 { job.group = ["g", "h"].randomElement(using: &random) }
            if Int.random(in: 0...5, using: &random) == 0 {
                let policy = Job.Uniqueness.Policy.allCases.randomElement(using: &random) ?? .keep
                job.uniqueness = .init(key: "key", policy: policy)
            }
            // A dependency is an earlier job, because it must exist or precede the job in the list.
            if number > 1, Int.random(in: 0...2, using: &random) == 0 {
                job.dependencies = (1...Int.random(in: 1...2, using: &random)).map { _ in
                    "job \(Int.random(in: max(1, number - 12)..<number, using: &random))"
                }
            }
            if Int.random(in: 0...5, using: &random) == 0 {
                job.expires = date + Double.random(in: 1...200, using: &random)
            }
            if Int.random(in: 0...5, using: &random) == 0 {
                job.notBefore = date + Double.random(in: 1...50, using: &random)
            }
        }
    }

    private func outcome(
        _ body: () async throws -> [JobAddition]
    ) async -> Result<[JobAddition], QueueError> {
        do { return .success(try await body()) } catch {
            return .failure(error as? QueueError ?? QueueError(.failed, "\(error)"))
        }
    }

    private func verdict(_ random: inout SeededGenerator) -> JobVerdict {
        [.done, .done, .retry(after: .seconds(5)), .dead("no"), .release, .answered(JobResult(statusCode: 200))]
            .randomElement(using: &random) ?? .done
    }
}
