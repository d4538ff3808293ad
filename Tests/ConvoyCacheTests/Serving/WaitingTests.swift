import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests hits and misses whose operations have to wait.
@Suite(.timeLimit(.minutes(2)))
struct WaitingTests {
    /// The hit after a redirect needs no slot, and its body waits for a reader.
    @Test func aSlotThatAHitReturnsStartsAnotherRequest() async throws {
        let gate = Gate()
        let world = try CacheWorld(.memory, capacity: 64 << 20, { $0.maxConcurrentOperationCount = 1 }) { request, _ in
            switch request.path {
            case "/found":
                Reply.status(302, headerFields: [("Cache-Control", "no-store"), ("Location", "/large")])
                    .stalling(until: gate)
            case "/large": .generated(byteCount: 4_000_000, headerFields: [("Cache-Control", "max-age=60")])
            default: .fresh()
            }
        }
        let large = try await world.get("/large").value
        let other = world.manager.operation(world.request("/other"))
        let chunks = world.manager.chunks(of: world.request("/found"))
        let reader = Task {
            var read = Data()
            for try await chunk in chunks {
                if read.isEmpty { _ = try await other.response() }
                read += chunk
            }
            return read
        }
        try await gate.reached()
        world.manager.enqueue(other)
        gate.open()
        #expect(try await reader.value == large)
    }

    /// More requests than threads for disks; each writes its file on one of them, and waits for that if it cannot pause.
    @Test func manyFilesOfOneStoredResponseAreWritten() async throws {
        let exchanges = EventLog<StubExchange>()
        let transport = StubTransport(pausesInPlace: false) { exchanges.record($0) }
        let world = try CacheWorld(
            .disk,
            {
                ($0.transport, $0.maxConcurrentOperationCount) = (.custom(transport), 1_000)
                $0.maxConcurrentPerHost = 1_000
            }, reply: { _, _ in .fresh() })
        let operations = (0..<130).map { world.manager.download("http://stub/a", to: world.directory.file("\($0)")) }
        try await world.clock.timersSet(count: 129)
        await exchanges.wait()
        exchanges.events.first?.answer(200, headerFields: ["Cache-Control": "max-age=60"], body: Data("body".utf8))
        for operation in operations { _ = try await operation.response() }
        #expect(exchanges.count == 1)
    }

    /// The lookup finds a response that is stale when the operation runs.
    ///
    /// The operation waits an hour, in a suspended manager or in a busy queue.
    @Test(arguments: [true, false])
    func hitThatHasWaitedForLongIsValidated(_ isSuspended: Bool) async throws {
        let gate = Gate()
        let world = try CacheWorld { request, _ in
            let reply = Reply.fresh(control: "max-age=60, must-revalidate")
            return request.path == "/slow" ? reply.stalling(until: gate) : reply
        }
        _ = try await world.get()
        world.manager.queue.maxConcurrentOperationCount = 1
        world.manager.isSuspended = isSuspended
        if !isSuspended {
            world.manager.enqueue(world.request("/slow"))
            try await gate.reached()
        }
        let operation = world.manager.enqueue(world.request())
        // The cache has finished the lookup when a later hit is served.
        let other = RequestManager(configuration: world.manager.configuration)
        _ = try await other.send(world.request())
        world.clock.advance(by: .seconds(3600))
        world.manager.isSuspended = false
        gate.open()
        #expect(try await !operation.response().isHit)
    }

    @Test(arguments: Place.allCases)
    func requestsThatWaitForASlotUseResponsesStoredMeanwhile(_ place: Place) async throws {
        let world = try CacheWorld(place, { $0.maxConcurrentOperationCount = 1 }) { request, _ in .fresh(request.path) }
        let results = await world.manager.batch((0..<200).map { world.request("/\($0 % 10)") }).results
        for (number, result) in results.enumerated() { #expect(try result.get().text == "/\(number % 10)") }
        #expect(world.sent.count == 10)
    }
}
