import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests equal requests that run at the same time and share one transfer.
@Suite(.timeLimit(.minutes(2)))
struct SharingTests {
    private static func fresh(_ number: Int, _ gate: Gate, _ control: String = "max-age=60") -> Reply {
        .status(200, headerFields: [("Cache-Control", control)], body: "body \(number)").stalling(until: gate)
    }

    /// Returns when the first request runs, and the other requests wait for it or were sent.
    private static func others(
        _ world: CacheWorld, behind gate: Gate, waiting: Bool = true,
        _ change: (Request<Data>) -> Request<Data> = { $0 }
    ) async throws -> (first: RequestOperation<Data>, others: [RequestOperation<Data>]) {
        let first = world.manager.enqueue(Request<Data>.get(world.server.url("/a")))
        try await gate.reached()
        let count = world.clock.timerCount
        let others = (0..<4).map { _ in
            world.manager.enqueue(change(Request<Data>.get(world.server.url("/a"))))
        }
        // Each waiting request sets a timer for its deadline.
        if waiting { try await world.clock.timersSet(count: count + 4) } else { try await gate.reached(count: 5) }
        return (first, others)
    }

    private static func texts(_ operations: [RequestOperation<Data>]) async throws -> [String] {
        var texts: [String] = []
        for operation in operations {
            texts.append(String(decoding: try await operation.response().value, as: UTF8.self))
        }
        return texts
    }

    @Test(arguments: Place.allCases)
    func equalRequestsShareOneTransfer(_ place: Place) async throws {
        let gate = Gate()
        let world = try CacheWorld(place) { _, number in
            Self.fresh(number, gate)
        }
        let (first, others) = try await Self.others(world, behind: gate)
        gate.open()
        #expect(try await Self.texts([first] + others) == Array(repeating: "body 1", count: 5))
        #expect(world.sent.count == 1)
        #expect(world.cache.statistics.hits == 4)
    }

    /// The head of the response forbids sharing, so each waiting request is then sent by itself.
    @Test func responseThatIsNotStoredIsNotShared() async throws {
        let gate = Gate()
        let world = try CacheWorld { _, number in
            Self.fresh(number, gate, "no-store")
        }
        let (first, others) = try await Self.others(world, behind: gate)
        gate.open()
        #expect(Set(try await Self.texts([first] + others)).count == 5)
        #expect(world.sent.count == 5)
    }

    @Test func otherCredentialIsNotWaitedFor() async throws {
        let gate = Gate()
        let world = try CacheWorld { _, number in
            Self.fresh(number, gate)
        }
        let (first, others) = try await Self.others(world, behind: gate, waiting: false) { $0.bearer("other") }
        gate.open()
        #expect(Set(try await Self.texts([first] + others)).count == 5)
    }

    @Test func requestsGoWhenTheOneTheyWaitForIsCancelled() async throws {
        let gate = Gate()
        let world = try CacheWorld { _, number in
            Self.fresh(number, gate)
        }
        let (first, others) = try await Self.others(world, behind: gate)
        first.cancel()
        try await gate.reached(count: 2)
        gate.open()
        #expect(try await Self.texts(others).count == 4)
        #expect(world.sent.count > 1)
    }

    @Test func requestsAreSentWhenTheSharedOneIsTooSlow() async throws {
        let gate = Gate()
        let world = try CacheWorld { _, number in
            Self.fresh(number, gate)
        }
        let (first, others) = try await Self.others(world, behind: gate)
        world.clock.advance(by: .seconds(5))
        try await gate.reached(count: 5)
        gate.open()
        #expect(Set(try await Self.texts([first] + others)).count == 5)
    }
}
