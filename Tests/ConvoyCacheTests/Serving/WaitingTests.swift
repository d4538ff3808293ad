import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests hits and misses whose operations have to wait.
@Suite(.timeLimit(.minutes(2)))
struct WaitingTests {
    private static let fresh = [("Cache-Control", "max-age=60")]

    /// The hit after a redirect needs no slot, and its body waits for a reader.
    @Test func aSlotThatAHitReturnsStartsAnotherRequest() async throws {
        let gate = Gate()
        let world = try CacheWorld(.memory, capacity: 64 << 20, { $0.maxConcurrentOperationCount = 1 }) { request, _ in
            switch request.path {
            case "/found":
                Reply.status(302, headerFields: [("Cache-Control", "no-store"), ("Location", "/large")])
                    .stalling(until: gate)
            case "/large": .generated(byteCount: 4_000_000, headerFields: Self.fresh)
            default: .status(200, headerFields: Self.fresh, body: "body")
            }
        }
        _ = try await world.get("/large")
        let other = world.manager.operation(Request<Data>.get(world.server.url("/other")))
        let chunks = world.manager.chunks(of: Request<Data>.get(world.server.url("/found")))
        let reader = Task {
            var count = 0
            for try await chunk in chunks {
                if count == 0 { _ = try await other.response() }
                count += chunk.count
            }
            return count
        }
        try await gate.reached()
        world.manager.enqueue(other)
        gate.open()
        #expect(try await reader.value == 4_000_000)
    }

    /// The lookup finds a response that is stale when the operation runs.
    ///
    /// The operation waits an hour, in a suspended manager or in a busy queue.
    @Test(arguments: [true, false])
    func hitThatHasWaitedForLongIsValidated(_ isSuspended: Bool) async throws {
        let gate = Gate()
        let world = try CacheWorld { request, _ in
            let reply = Reply.status(
                200, headerFields: [("Cache-Control", "max-age=60, must-revalidate")], body: "body")
            return request.path == "/slow" ? reply.stalling(until: gate) : reply
        }
        _ = try await world.get()
        world.manager.queue.maxConcurrentOperationCount = 1
        world.manager.isSuspended = isSuspended
        if !isSuspended {
            world.manager.enqueue(Request<Data>.get(world.server.url("/slow")))
            try await gate.reached()
        }
        let operation = world.manager.enqueue(Request<Data>.get(world.server.url("/a")))
        // The cache has finished the lookup when a later hit is served.
        let other = RequestManager(configuration: world.manager.configuration)
        _ = try await other.send(Request<Data>.get(world.server.url("/a")))
        world.clock.advance(by: .seconds(3600))
        world.manager.isSuspended = false
        gate.open()
        #expect(try await operation.response().metrics?.cache?.isHit == false)
    }

    @Test(arguments: Place.allCases)
    func requestsThatWaitForASlotUseResponsesStoredMeanwhile(_ place: Place) async throws {
        let world = try CacheWorld(place, { $0.maxConcurrentOperationCount = 1 }) { request, _ in
            .status(200, headerFields: Self.fresh, body: request.path)
        }
        let requests = (0..<200).map { Request<Data>.get(world.server.url("/\($0 % 10)")) }
        let results = await world.manager.batch(requests).results
        for (number, result) in results.enumerated() {
            #expect(String(decoding: try result.get().value, as: UTF8.self) == "/\(number % 10)")
        }
        #expect(world.sent.count == 10)
    }
}
