import Convoy
import Testing

@testable import ConvoyCommand

@Suite struct FetchPlacesTests {
    @Test func noMoreSlotsAreInUseThanExist() async {
        let (placeCount, takeCount) = (2, 500)
        let places = FetchPlaces(count: placeCount)
        let given = Locked(0)
        let (takes, take) = AsyncStream.makeStream(of: Void.self)
        let taker = Task {
            for taken in 1...takeCount {
                await places.take()
                #expect(taken <= placeCount + given.withLock { $0 })
                take.yield()
            }
            take.finish()
        }
        // The loop frees a slot after each take. A taker that did not wait would exceed the number of free slots.
        for await _ in takes {
            given.withLock { $0 += 1 }
            places.give()
        }
        await taker.value
        #expect(given.withLock { $0 } == takeCount)
    }
}
