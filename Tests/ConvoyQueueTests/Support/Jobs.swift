// Jobs for tests, and common operations on them.
import Convoy
import Foundation
import Testing

@testable import ConvoyQueue

extension Job {
    /// A job that sends a POST to a URL that ends with the job's id.
    static func test(_ id: String, kind: String = "test", _ change: (inout Job) -> Void = { _ in }) throws -> Job {
        let url = try #require(URL(string: "http://127.0.0.1:9/\(id)"))
        var job = Job(kind, JobRequest(method: .post, url: url), id: id)
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

    /// Settles one claim.
    ///
    /// Returns whether the store accepted the settlement.
    func settle(_ claimed: ClaimedJob, _ verdict: JobVerdict, attempt: JobAttempt? = nil) async throws -> Bool {
        try await exchange([Settlement(claimed.claim, verdict, attempt: attempt)], claiming: nil).isSettled == [true]
    }

    /// Claims all jobs one after another, and settles each with the verdict.
    ///
    /// Returns the ids of the jobs.
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
                    if index == 0 {
                        job.uniqueness = .init(
                            key: "key-\(Int.random(in: 0..<2))",
                            policy: [.keep, .replace, .append].randomElement() ?? .keep)
                    }
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

extension [UInt8] {
    /// A large body of 256 different bytes, repeated.
    ///
    /// It is built from blocks, because single bytes take seconds in a debug build.
    static func pattern(byteCount: Int) -> [UInt8] {
        let block = (0...255).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        while bytes.count < byteCount { bytes += block.prefix(byteCount - bytes.count) }
        return bytes
    }
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
