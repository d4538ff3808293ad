import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// What becomes of hits and misses whose operations have to wait.
@Suite(.timeLimit(.minutes(2)))
struct WaitingTests {
    private static let fresh = [("Cache-Control", "max-age=60")]

    /// The hit behind a redirect needs no slot, and its body waits to be read.
    @Test func slotThatAHitGivesBackStartsAnother() async throws {
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
}
