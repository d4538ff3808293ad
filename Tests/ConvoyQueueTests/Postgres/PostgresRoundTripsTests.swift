import Convoy
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Tests the number of round trips of a call, and calls whose reply is lost.
@Suite(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresRoundTripsTests {
    let proxy: PostgresProxy
    let address: String

    init() async throws {
        let server = try await PostgresServer.shared()
        proxy = try PostgresProxy(to: server)
        address = proxy.address(try await server.makeDatabase())
    }

    private func count(_ body: () async throws -> Void) async throws -> Int {
        let before = proxy.roundTripCount
        try await body()
        return proxy.roundTripCount - before
    }

    private func jobs(_ ids: Range<Int>, _ change: (inout Job) -> Void = { _ in }) throws -> [Job] {
        try ids.map { try .test("\($0)", change) }
    }

    @Test func aCallIsOneRoundTrip() async throws {
        let store = try await PostgresStore(address)
        let request = ClaimRequest(limit: 2, lease: .seconds(60), answeredKinds: .all)
        for isWarm in [false, true] {
            let first = isWarm ? 100 : 0
            #expect(try await count { try await store.add(.test("\(first)")) } == 1)
            // One of these jobs is in a group. It is never claimed here, because settling it takes more round trips.
            let more = try jobs(first + 1..<first + 20) { job in
                (job.group, job.priority) = job.id == "\(first + 5)" ? ("g", .veryLow) : (nil, .normal)
            }
            #expect(try await count { _ = try await store.add(more) } == 1)
            #expect(try await count { _ = try await store.status() } == 1)
            #expect(try await count { _ = try await store.job("1") } == 1)
            #expect(try await count { _ = try await store.jobs(.all, after: 0, limit: 9) } == 1)
            #expect(try await count { _ = try await store.blockers(of: "1") } == 1)
            var claimed: [ClaimedJob] = []
            #expect(try await count { claimed = try await store.exchange([], claiming: request).jobs } == 1)
            let verdicts: [JobVerdict] = [.done, .retry(after: .zero)]
            let settlements = zip(claimed, verdicts).map { Settlement($0.claim, $1) }
            var exchange: Exchange?
            let turn = try await count { exchange = try await store.exchange(settlements, claiming: request) }
            #expect(turn == 1 && exchange?.isSettled == [true, true] && exchange?.jobs.count == 2)
            #expect(try await count { _ = try await store.exchange([], claiming: request) } == 1)
        }
    }

    /// The store settles a job with dependents in several round trips.
    @Test func aJobWithDependentsNeedsMoreRoundTrips() async throws {
        let store = try await PostgresStore(address)
        _ = try await store.add([.test("a"), .test("b") { $0.dependencies = ["a"] }])
        let claimed = try await store.claim()
        #expect(claimed.ids == ["a"])
        let more = try await count { _ = try await store.settle(claimed[0], .done) }
        #expect((3...9).contains(more))
        #expect(try await store.claim().ids == ["b"])
    }

    @Test func anAdditionWhoseAnswerIsLostIsKnown() async throws {
        let store = try await PostgresStore(address)
        try await store.add(.test("there"))
        proxy.loseNextAnswer()
        let additions = try await store.add([.test("a"), .test("there"), .test("b") { $0.group = "g" }, .test("a")])
        #expect(additions.map(\.outcome) == [.added, .alreadyThere, .added, .alreadyThere])
        #expect(try await store.status()[.waiting] == 3)
        try await checkPostgresRules(address)
    }

    @Test func aClaimWhoseAnswerIsLostIsKnown() async throws {
        let store = try await PostgresStore(address)
        _ = try await store.add(jobs(0..<5) { $0.request.body = .data(Data("body".utf8)) })
        let claimed = try await store.claim(2)
        #expect(claimed.ids == ["0", "1"])
        let settlements = [
            Settlement(claimed[0].claim, .done), Settlement(Claim(id: "1", token: 99), .done),
            Settlement(claimed[1].claim, .dead("no")),
        ]
        proxy.loseNextAnswer()
        let exchange = try await store.exchange(settlements, claiming: ClaimRequest(limit: 2, lease: .seconds(60)))
        #expect(exchange.isSettled == [true, false, true] && exchange.jobs.ids == ["2", "3"])
        #expect(exchange.jobs.map(\.claim.token) == [1, 1])
        #expect(exchange.jobs.first?.job.request.body == .data(Data("body".utf8)))
        #expect(
            try await store.states() == ["0": .done, "1": .dead, "2": .claimed, "3": .claimed, "4": .waiting])
        try await checkPostgresRules(address)
    }

    /// Tests a claim whose reply is lost, by a store that does not wait for a new connection.
    ///
    /// The next exchange releases the claimed jobs.
    @Test func aClaimWhoseResultIsLostIsReleased() async throws {
        let store = try await PostgresStore(address, time: nil, patience: .zero)
        _ = try await store.add(jobs(0..<3))
        proxy.loseNextAnswer()
        let error = await failure { _ = try await store.claim(2) }
        #expect(error?.code == .unavailable && error?.message.contains("is not known") == true)
        let again = try await store.claim(3)
        #expect(again.ids == ["0", "1", "2"] && again.map(\.claim.token) == [2, 2, 1])
        for job in again { #expect(try await store.settle(job, .done)) }
    }
}
