import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests that one host does not block others.
extension StoreConformanceTests {
    private func job(_ id: String, _ host: String) throws -> Job {
        let url = try #require(URL(string: host.isEmpty ? "/a" : "http://\(host)/a"))
        return try .test(id) { $0.request.url = url }
    }

    private func claim(
        _ store: any Store, _ limit: Int, most: Int, _ rooms: [String: Int] = [:]
    ) async throws -> Exchange {
        var request = ClaimRequest(limit: limit, lease: .seconds(60))
        (request.maxPerHost, request.rooms) = (most, rooms)
        return try await store.exchange([], claiming: request)
    }

    @Test(arguments: ConformingStore.all)
    func noMoreOfAHostAreClaimedThanItHasRoom(conforming: ConformingStore) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add(
            (1...20).map { try job("dead-\($0)", "dead.example") } + [
                job("one", "One.example"), job("two", "two.example:81"), job("high", "dead.example"),
                job("relative-1", ""), job("relative-2", ""), job("relative-3", ""),
            ])
        let first = try await claim(store, 100, most: 2)
        #expect(
            first.jobs.ids == ["dead-1", "dead-2", "one", "two", "relative-1", "relative-2", "relative-3"])
        // The store announces no time for the next claim, because the caller knows which hosts are full.
        let full = ["dead.example:80": 0]
        let second = try await claim(store, 100, most: 2, full)
        #expect(second.jobs.isEmpty && second.next == nil)
        try await store.add(job("three", "three.example"))
        #expect(try await claim(store, 100, most: 2, full).jobs.ids == ["three"])
        #expect(try await claim(store, 100, most: 2, ["dead.example:80": 1]).jobs.ids == ["dead-3"])
        #expect(try await store.claim(2).ids == ["dead-4", "dead-5"])
        await store.close()
    }

    @Test(arguments: ConformingStore.all, [false, true])
    func triedJobsAreClaimedAfterUntriedOnes(conforming: ConformingStore, isBounded: Bool) async throws {
        let store = try await conforming.open(place)
        _ = try await store.add([.test("a"), .test("b") { $0.priority = .high }])
        let attempt = JobAttempt(started: place.clock.date)
        for claimed in try await store.claim() {
            #expect(try await store.settle(claimed, .retry(after: .zero), attempt: attempt))
        }
        _ = try await store.add([.test("c"), .test("d") { $0.priority = .low }])
        // If `isBounded`, the limit of the claim exceeds the limit of the host by one, so the store must apply the
        // limit of the host.
        #expect(
            try await claim(store, 4, most: isBounded ? 3 : 4).jobs.ids == ["b", "c", "a"] + (isBounded ? [] : ["d"]))
        await store.close()
    }
}
