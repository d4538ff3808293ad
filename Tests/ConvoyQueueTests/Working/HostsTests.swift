import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests that a host that hangs does not delay other hosts.
@Suite struct QueueHostsTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test(arguments: [true, false])
    func aHostThatHangsStopsNoOther(isStored: Bool) async throws {
        let gate = Gate()
        let (dead, healthy) = (try KeyedServer { _ in .status(200).stalling(until: gate) }, try KeyedServer())
        let store: any Store =
            isStored ? try SQLiteStore(at: place.file) : MemoryStore(place.memory, clock: SystemClock.shared)
        let queue = DurableQueue(store: store, manager: RequestManager())
        try await queue.add(contentsOf: (1...600).map { try dead.job("dead-\($0)") })
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 6, within: .seconds(60))
        try await queue.add(healthy.job("healthy"))
        try await healthy.server.requestsReceived(count: 1, within: .seconds(60))
        try await look { try await queue.store.state("healthy") == .done }
        #expect(try await queue.status()[.claimed] == queue.maxPerHost)
        let host = JobRequest(url: dead.server.url("/")).host
        let why = try await queue.why("dead-600")
        #expect(why == "it waits for the host \(host), for which this queue runs \(queue.maxPerHost) jobs")
        gate.open()
        await queue.drain()
        #expect(try await queue.status()[.done] == 601)
        #expect(dead.all.requestCount == 600)
        await queue.close()
    }

    @Test func jobsThatWaitForAHangingHostAreReleased() async throws {
        let gate = Gate()
        let dead = try KeyedServer { _ in .status(200).stalling(until: gate) }
        var configuration = DurableQueue.Configuration()
        configuration.lease = .seconds(1)
        let queue = try DurableQueue(at: place.file, manager: RequestManager(), configuration: configuration)
        try await queue.add(contentsOf: (1...100).map { try dead.job("\($0)") })
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 6, within: .seconds(60))
        // After one or two heartbeats only running jobs stay claimed.
        try await look { try await queue.status()[.claimed] <= 6 }
        gate.open()
        await queue.drain()
        #expect(try await queue.status()[.done] == 100)
        // On a busy machine, a lease of one second may expire. Then a running job is sent again with its key.
        #expect(dead.all.keys.count == 100 && dead.all.keys.values.allSatisfy { $0.count == 1 })
        await queue.close()
    }

    /// A host may have four times as many claims as concurrent requests, so that no request waits for an exchange.
    ///
    /// An eighth of all claims is always permitted, and three quarters are the maximum.
    @Test(arguments: [
        (6, 256, 32), (32, 256, 128), (100, 256, 192), (6, 8, 6), (6, 3, 2), (1, 1, 1), (1, 0, 1), (.max, 256, 192),
        (6, .max, .max / 8), (.max, .max, .max / 4 * 3 + 2),
    ])
    func aHostHasClaimsForAnExchange(sentAtOnce: Int, claimed: Int, expected: Int) throws {
        let manager = RequestManager(configuration: .init(maxConcurrentPerHost: sentAtOnce))
        let queue = try place.makeQueue(manager) { $0.maxClaimedJobCount = claimed }
        #expect(queue.maxPerHost == expected)
    }

    @Test func aHostIsStuckWhenNothingEndsBetweenHeartbeats() {
        var state = DurableQueueState()
        for number in 1...4 {
            let claim = Claim(id: "\(number)", token: 1)
            state.inFlight["\(number)"] = DurableQueueState.InFlight(claim: claim, host: number < 4 ? "a" : "b")
        }
        _ = state.findStuck(least: 2)
        #expect(state.stuckHosts.isEmpty && state.rooms(most: 8, least: 2) == ["a": 5, "b": 7])
        _ = state.findStuck(least: 2)
        #expect(state.stuckHosts == ["a"] && state.rooms(most: 8, least: 2) == ["a": 0, "b": 7])
        // A release does not count as the end of a request, but `done` does.
        _ = state.end(Settlement(Claim(id: "1", token: 1), .release), limit: 256)
        #expect(state.stuckHosts == ["a"])
        _ = state.end(Settlement(Claim(id: "2", token: 1), .done), limit: 256)
        #expect(state.stuckHosts.isEmpty && state.rooms(most: 8, least: 2) == ["a": 7, "b": 7])
    }
}
