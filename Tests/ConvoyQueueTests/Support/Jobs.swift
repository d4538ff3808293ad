// Jobs for tests, and common operations on them.
import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

extension Job {
    /// A job that sends a POST to a URL that ends with the job's id.
    static func test(
        _ id: String, kind: String = "test", needs: [String] = [], group: String? = nil, key: String? = nil,
        policy: Uniqueness.Policy = .append, expires: Date? = nil, body: Data? = nil,
        _ change: (inout Job) -> Void = { _ in }
    ) throws -> Job {
        let url = try #require(URL(string: "http://127.0.0.1:9/\(id)"))
        var job = Job(kind, JobRequest(method: .post, url: url, body: body.map { .data($0) }), id: id)
        (job.dependencies, job.group, job.expires) = (needs, group, expires)
        job.uniqueness = key.map { .init(key: $0, policy: policy) }
        change(&job)
        return job
    }
}

extension Store {
    func add(_ job: Job) async throws { _ = try await add([job]) }

    /// Claims for one minute by default.
    func claim(
        _ limit: Int = 100, lease: Duration = .seconds(60), kinds: ClaimRequest.Kinds = .all,
        answered: ClaimRequest.Kinds = .only([])
    ) async throws -> [ClaimedJob] {
        let request = ClaimRequest(limit: limit, lease: lease, kinds: kinds, answeredKinds: answered)
        return try await exchange([], claiming: request).jobs
    }

    /// Settles one claim; false if the store did not accept the settlement.
    func settle(_ claimed: ClaimedJob, _ verdict: JobVerdict, attempt: JobAttempt? = nil) async throws -> Bool {
        try await exchange([Settlement(claimed.claim, verdict, attempt: attempt)], claiming: nil).isSettled == [true]
    }

    /// Claims one job, and settles it.
    func settleNext(_ verdict: JobVerdict, attempt: JobAttempt? = nil) async throws -> Bool {
        try await settle(try #require(try await claim(1).first), verdict, attempt: attempt)
    }

    /// The ids of all jobs, which are claimed one after another and settled.
    func finishAll(_ verdict: JobVerdict = .done) async throws -> [String] {
        var ids: [String] = []
        while let job = try await claim(1).first {
            #expect(try await settle(job, verdict))
            ids.append(job.job.id)
        }
        return ids
    }

    func states() async throws -> [String: JobState] {
        let records = try await jobs(.all, after: 0, limit: 1_000)
        return Dictionary(records.map { ($0.job.id, $0.state) }) { first, _ in first }
    }

    func state(_ id: String) async throws -> JobState? { try await job(id)?.state }

    /// Adds, settles, cancels, retries or deletes some jobs.
    func changeAtRandom(_ name: String) async throws {
        let known = try await jobs(.all, after: 0, limit: 1_000).map(\.job.id).shuffled()
        let some = JobSelection(ids: Set(known.prefix(4)))
        switch Int.random(in: 0..<10) {
        case 0...3:
            let jobs = try (0..<4).map { index in
                try Job.test("\(name)-\(index)") { job in
                    if Bool.random() { job.group = "group-\(Int.random(in: 0..<3))" }
                    if Bool.random() { job.dependencies = Array(known.prefix(2)) }
                    let policy = Job.Uniqueness.Policy.allCases.randomElement() ?? .keep
                    if index == 0 { job.uniqueness = .init(key: "key-\(Int.random(in: 0..<2))", policy: policy) }
                }
            }
            do { _ = try await add(jobs) } catch {
                // Another store has deleted the dependency.
                if error.code != .unknownJob { throw error }
            }
        case 4...6:
            let verdicts: [JobVerdict] = [
                .done, .done, .dead("no"), .retry(after: .zero), .release, .answered(JobResult(statusCode: 200)),
            ]
            let claimed = try await claim(3, answered: .all)
            let settlements = claimed.map { Settlement($0.claim, verdicts.randomElement() ?? .done) }
            _ = try await exchange(
                settlements, claiming: ClaimRequest(limit: 1, lease: .seconds(60), kinds: .all))
            try await release()
        case 7: _ = try await cancel(some)
        case 8: _ = try await retry(.all)
        default: _ = try await delete(some)
        }
    }
}

extension [ClaimedJob] {
    var ids: [String] { map(\.job.id) }
}

extension SQLiteWorker {
    func add(_ jobs: [Job]) throws -> [JobAddition] { try add([jobs])[0].get() }
}

/// The error that a body throws; nil for none.
func failure(_ body: () async throws -> Void) async -> QueueError? {
    do {
        try await body()
        return nil
    } catch { return error as? QueueError }
}
