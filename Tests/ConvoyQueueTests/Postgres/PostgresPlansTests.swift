import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests how the server runs statements while it has no statistics, as after the first jobs are added.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresPlansTests {
    private var request: ClaimRequest {
        var request = ClaimRequest(limit: 256, lease: .seconds(60), answeredKinds: .all)
        (request.maxPerHost, request.rooms) = (128, ["127.0.0.1:9": 32])
        return request
    }

    private let settlements = (0..<32).map {
        Settlement(Claim(id: "\($0)", token: 1), .done, attempt: JobAttempt(started: .now))
    }

    /// The scan below the step that locks rows of `convoy_jobs`.
    private func lockedScan(_ address: String, _ statement: PostgresStatement) async throws -> String {
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

    /// The plans must not depend on statistics, which are always outdated.
    ///
    /// A claim must look up each candidate by its position, and a settlement each job by its id. Without statistics
    /// the planner prefers an index of all ready or all claimed jobs, and reads all of it for each job.
    @Test func claimsAndSettlementsReadOnlyTheirJobs() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        _ = try await store.add((0..<2_000).map { try .test("\($0)") })
        let claim = try #require(PostgresRules.claimReady(request, by: "owner", noting: "number"))
        let scan = try await lockedScan(address, claim)
        #expect(scan.contains("convoy_jobs_pkey") && scan.contains("loops=32"), "\(scan)")
        #expect(try await store.status()[.claimed] == 32)
        let statements = try WholeExchange(settlements: settlements, request: nil, owner: "owner").work("number", nil) {
            _ in
        }.statements
        let settling = try await lockedScan(address, try #require(statements.first))
        #expect(settling.contains("convoy_jobs_id_key"), "\(settling)")
    }

}
