import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests claims that expire without a verdict: the store counts them, and delays and isolates their jobs.
extension StoreConformanceTests {
    /// Claims all jobs for ten seconds and lets the leases expire.
    ///
    /// Another instance finds the lapses.
    private func lapse(_ store: any Store, foundBy other: any Store) async throws -> [ClaimedJob] {
        let claimed = try await store.claim(lease: .seconds(10))
        place.clock.advance(by: .seconds(11))
        #expect(try await other.claim(0).isEmpty)
        return claimed
    }

    @Test(arguments: ConformingStore.all)
    func claimsThatLapseAreCounted(conforming: ConformingStore) async throws {
        let (store, other) = (try await conforming.open(place), try await conforming.open(place))
        try await store.add(.test("a"))
        #expect(try await lapse(store, foundBy: other).map(\.lapseCount) == [0])
        // The first lapse causes no delay; later delays grow.
        for (count, seconds) in [(1, 1), (2, 2), (3, 4)] {
            #expect(try await lapse(store, foundBy: other).map(\.lapseCount) == [count])
            #expect(try await store.claim().isEmpty, "\(count)")
            let record = try #require(try await store.job("a"))
            #expect(record.life.lapseCount == count + 1 && record.attemptCount == 0)
            #expect(abs(try #require(record.delay) / .seconds(1) - Double(seconds)) < 0.1)
            place.clock.advance(by: .seconds(seconds))
        }
        // A release keeps the count; any other verdict resets it.
        let given = try #require(try await store.claim().first)
        #expect(given.lapseCount == 4)
        try await store.release()
        let again = try #require(try await store.claim().first)
        #expect(again.lapseCount == 4)
        #expect(try await store.settle(again, .retry(after: .zero)))
        #expect(try await store.claim(lease: .seconds(1)).map(\.lapseCount) == [0])
        // The owner itself is alive, so its ended lease is no lapse, and it keeps the job.
        place.clock.advance(by: .seconds(2))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.job("a")?.life.lapseCount == 0)
        await store.close()
        await other.close()
    }

    @Test(arguments: ConformingStore.all)
    func suspectsAreClaimedOneAtATime(conforming: ConformingStore) async throws {
        let (one, two) = (try await conforming.open(place), try await conforming.open(place))
        _ = try await one.add([.test("a"), .test("b"), .test("c")])
        for _ in 1...2 { #expect(try await lapse(one, foundBy: two).count == 3) }
        #expect(try await one.claim().isEmpty)
        place.clock.advance(by: .seconds(1))
        try await one.add(.test("new"))
        #expect(try await one.claim().ids == ["a", "new"])
        #expect(try await one.claim().isEmpty)
        let other = try await two.claim()
        #expect(other.ids == ["b"])
        #expect(try await two.settle(other[0], .done))
        #expect(try await two.claim().ids == ["c"])
        await one.close()
        await two.close()
    }

    @Test(arguments: ConformingStore.all)
    func aDeadLetterThatIsRetriedBeginsAnew(conforming: ConformingStore) async throws {
        let (store, other) = (try await conforming.open(place), try await conforming.open(place))
        try await store.add(.test("a"))
        for _ in 1...2 { _ = try await lapse(store, foundBy: other) }
        #expect(try await store.claim().isEmpty)
        place.clock.advance(by: .seconds(1))
        let claimed = try #require(try await store.claim().first)
        #expect(try await store.settle(claimed, .dead("no")))
        #expect(try await store.retry(.all) == 1)
        #expect(try await store.claim().map(\.lapseCount) == [0])
        await store.close()
        await other.close()
    }
}
