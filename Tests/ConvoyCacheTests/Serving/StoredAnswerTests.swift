import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests hits that need no operation.
@Suite(.timeLimit(.minutes(5)))
struct StoredAnswerTests {
    private static func makeWorld(_ place: Place) async throws -> CacheWorld {
        let world = try CacheWorld(place) { _, number in .fresh("body \(number)") }
        // In a directory, the cache reads the second response from the disk and the third from memory.
        for _ in 0..<3 { _ = try await world.get() }
        #expect(world.sent.count == 1)
        return world
    }

    @Test(arguments: Place.allCases)
    func aHitHasItsCacheStatusAgeAndTimings(_ place: Place) async throws {
        let world = try await Self.makeWorld(place)
        let response = try await world.get()
        #expect(response.metrics?.cache?.description == "convoy; hit; ttl=60")
        #expect(response.transfer.download.completedBytes == 6)
        #expect(response.headerFields["Age"] == "0")
        #expect(response.timings.finished != nil)
        #expect(world.cache.statistics.hits == 3)
        world.clock.advance(by: .seconds(7))
        #expect(try await world.get().headerFields["Age"] == "7")
        #expect(try await world.get().metrics?.cache?.timeToLive == 53)
        world.clock.advance(by: .seconds(60))
        #expect(try await world.text() == "body 2")
    }

    @Test(arguments: Place.allCases)
    func managerThatWasShutDownAnswersNothing(_ place: Place) async throws {
        let world = try await Self.makeWorld(place)
        world.manager.shutDown()
        #expect(await world.failure()?.code == .managerShutDown)
    }

    @Test(arguments: Place.allCases)
    func limitOfABodyAlsoHoldsForAHit(_ place: Place) async throws {
        let world = try await Self.makeWorld(place)
        var configuration = world.manager.configuration
        configuration.maxBodyBytes = 5
        let manager = RequestManager(configuration: configuration)
        let error = await #expect(throws: RequestError.self) {
            try await manager.send(world.request())
        }
        #expect(error?.code == .bodyTooLarge)
        // The operation counts the hit, although the body exceeds its limit.
        #expect(world.cache.statistics.hits == 3)
    }

    @Test(arguments: Place.allCases)
    func removalByAnotherCacheIsSeenAtOnce(_ place: Place) async throws {
        let world = try await Self.makeWorld(place)
        if place == .disk {
            let other = HTTPCache(directory: world.directory.file("cache"), capacity: 16 << 20)
            other.removeAll()
            #expect(other.statistics.entryCount == 0)
        } else {
            world.cache.removeAll()
        }
        #expect(try await world.text() == "body 2")
        for _ in 0..<3 { #expect(try await world.text() == "body 2") }
        world.cache.removeAll()
        #expect(try await world.text() == "body 3")
    }
}
