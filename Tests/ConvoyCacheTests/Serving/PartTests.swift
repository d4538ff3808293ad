import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests partial responses whose body has another length than the server declares.
@Suite(.timeLimit(.minutes(2)))
struct PartTests {
    /// The last range ends at the last position that 64 bits hold.
    @Test(
        arguments: Place.allCases,
        ["2-7/100", "2-8/100", "2-5/100", "9223372036854775800-9223372036854775805/9223372036854775806"])
    func partIsStoredUnlessItIsLongerThanItsRange(_ place: Place, _ range: String) async throws {
        // The body has the length of the first range, and is shorter than the second.
        let isStored = ["2-7/100", "2-8/100"].contains(range)
        let world = try CacheWorld(place) { _, _ in
            .status(
                206,
                headerFields: [
                    ("Content-Range", "bytes " + range), ("ETag", "\"a\""), ("Cache-Control", "max-age=60"),
                ],
                body: isStored ? "012345" : "01234567890123456789")
        }
        _ = try await world.get { $0.header("Range", "bytes=2-7") }
        try #require(world.cache.statistics.entryCount == (isStored ? 1 : 0))
        _ = try await world.get { $0.header("Range", "bytes=3-4") }
        #expect(world.cache.statistics.hits == (isStored ? 1 : 0))
    }
}
