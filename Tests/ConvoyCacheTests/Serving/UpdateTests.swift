import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests stored responses whose fields change without a new body: by a 304, a response to HEAD, or a 206.
@Suite(.timeLimit(.minutes(2)))
struct UpdateTests {
    private static let tag = ("ETag", "\"v\"")

    /// A background request for a range would neither validate the whole response nor store anything.
    @Test(arguments: Place.allCases)
    func refreshOfAWholeResponseLeavesOutTheRange(_ place: Place) async throws {
        let world = try CacheWorld(place) { request, _ in
            let fields = [Self.tag, ("Cache-Control", "max-age=5, stale-while-revalidate=60")]
            return request.value(of: "If-None-Match") == nil
                ? .status(200, headerFields: fields, body: "0123456789") : .status(304, headerFields: fields)
        }
        _ = try await world.get()
        world.clock.advance(by: .seconds(6))
        for range in ["bytes=0-3", "bytes=4-7"] {
            let part = try await world.get { $0.header("Range", range).header("If-Range", "\"v\"") }
            #expect(part.statusCode == 206)
            await world.manager.drain()
        }
        #expect(world.sent.count == 2)
        #expect(world.sent.all.last?.value(of: "Range") == nil)
        #expect(world.sent.all.last?.value(of: "If-Range") == nil)
        #expect(world.sent.all.last?.value(of: "If-None-Match") == "\"v\"")
        #expect(world.cache.statistics.validations == 1)
    }

    /// The whole representation may be much larger than the part that is stored.
    @Test func refreshOfAPartKeepsTheRange() async throws {
        let world = try CacheWorld { _, _ in
            .status(
                206,
                headerFields: [
                    Self.tag, ("Cache-Control", "max-age=5, stale-while-revalidate=60"),
                    ("Content-Range", "bytes 0-3/1000"),
                ], body: "0123")
        }
        for _ in 1...2 {
            _ = try await world.get { $0.header("Range", "bytes=0-3") }
            await world.manager.drain()
            world.clock.advance(by: .seconds(6))
        }
        #expect(world.sent.all.map { $0.value(of: "Range") } == ["bytes=0-3", "bytes=0-3"])
    }
}
