import Convoy
import ConvoyCache
import Foundation
import Testing

/// Tests equal requests that run at the same time and share one transfer.
@Suite(.timeLimit(.minutes(2)))
struct SharingTests {
    private let gate = Gate()

    private func makeWorld(_ place: Place = .memory, _ control: String = "max-age=60") throws -> CacheWorld {
        try CacheWorld(place) { [gate] _, number in .fresh("body \(number)", control: control).stalling(until: gate) }
    }

    /// Returns when the first request runs, and the other requests wait for it or were sent.
    private func others(
        _ world: CacheWorld, waiting: Bool = true, _ change: (Request<Data>) -> Request<Data> = { $0 }
    ) async throws -> (first: RequestOperation<Data>, others: [RequestOperation<Data>]) {
        let first = world.manager.enqueue(world.request())
        try await gate.reached()
        let count = world.clock.timerCount
        let others = (0..<4).map { _ in world.manager.enqueue(change(world.request())) }
        // Each waiting request sets a timer for its deadline.
        if waiting { try await world.clock.timersSet(count: count + 4) } else { try await gate.reached(count: 5) }
        return (first, others)
    }

    private static func texts(_ operations: [RequestOperation<Data>]) async throws -> [String] {
        var texts: [String] = []
        for operation in operations { texts.append(try await operation.response().text) }
        return texts
    }

    @Test(arguments: Place.allCases)
    func equalRequestsShareOneTransfer(_ place: Place) async throws {
        let world = try makeWorld(place)
        let (first, others) = try await self.others(world)
        gate.open()
        #expect(try await Self.texts([first] + others) == Array(repeating: "body 1", count: 5))
        #expect(world.sent.count == 1)
        #expect(world.cache.statistics.hits == 4)
    }

    /// The head of the response forbids sharing, so each waiting request is then sent by itself.
    @Test func responseThatIsNotStoredIsNotShared() async throws {
        let world = try makeWorld(.memory, "no-store")
        let (first, others) = try await self.others(world)
        gate.open()
        #expect(Set(try await Self.texts([first] + others)).count == 5)
        #expect(world.sent.count == 5)
    }

    @Test(arguments: ["Authorization", "Cookie", "X-Api-Key"])
    func otherCredentialIsNotWaitedFor(_ name: String) async throws {
        let world = try makeWorld()
        let (first, others) = try await self.others(world, waiting: false) { $0.header(name, "other") }
        gate.open()
        #expect(Set(try await Self.texts([first] + others)).count == 5)
    }

    /// How the request that the others wait for ends without a response to share.
    struct Loss: Sendable {
        enum Kind: CaseIterable { case cancelled, suspended, closed, reset }

        let kind: Kind
        let isInTheBody: Bool
        /// Each request that takes over is lost too.
        let count: Int

        static let all =
            Kind.allCases.flatMap { kind in [false, true].map { Loss(kind: kind, isInTheBody: $0, count: 1) } }
            + [(Kind.cancelled, false), (.cancelled, true), (.closed, false)].map {
                Loss(kind: $0.0, isInTheBody: $0.1, count: 3)
            }

        func reply(_ whole: Reply, _ gate: Gate) -> Reply {
            let stalled =
                isInTheBody ? whole.stalling(afterBodyBytes: 20_000, until: gate) : whole.stalling(until: gate)
            return switch kind {
            case .cancelled, .suspended: stalled
            case .closed: stalled.disconnecting(afterBytes: isInTheBody ? 25_000 : 0)
            case .reset: stalled.resetting(afterBytes: isInTheBody ? 25_000 : 0)
            }
        }

        func perform(on operation: RequestOperation<Data>, _ gate: Gate) {
            switch kind {
            case .cancelled: operation.cancel()
            case .suspended: operation.suspend()
            case .closed, .reset: gate.open()
            }
        }
    }

    /// Sends 21 equal requests, and loses the first of them.
    ///
    /// With fewer slots, most requests get one later.
    @Test(arguments: Place.allCases.flatMap { place in [32, 6].map { (place, $0) } }, Loss.all)
    func oneOfTheWaitingRequestsTakesOver(_ run: (place: Place, limit: Int), _ loss: Loss) async throws {
        let (place, limit) = run
        let losses = (0..<loss.count).map { _ in Gate() }
        let body = Data(repeating: 7, count: 40_000)
        let world = try CacheWorld(
            place,
            {
                $0.maxConcurrentPerHost = limit
                $0.maxConcurrentOperationCount = limit
            },
            reply: { _, number in
                let whole = Reply.resource(body, etag: "\"v\"", headerFields: [("Cache-Control", "max-age=60")])
                return number <= loss.count ? loss.reply(whole, losses[number - 1]) : whole.stalling(until: gate)
            })
        let operations = (0...20).map { number in
            world.manager.operation(world.request().header("X-Number", "\(number)").retries(.never))
        }
        let timers = world.clock.timerCount
        world.manager.enqueue(operations[0])
        try await losses[0].reached()
        world.manager.enqueue(contentsOf: operations[1...])
        try await world.clock.timersSet(count: timers + min(20, limit - 1))
        var lost: Set<Int> = []
        for number in 0..<loss.count {
            try await losses[number].reached()
            let leader = try #require(world.sent.events.last?.value(of: "X-Number").flatMap(Int.init))
            lost.insert(leader)
            loss.perform(on: operations[leader], losses[number])
        }
        try await gate.reached()
        gate.open()
        for number in operations.indices where !lost.contains(number) {
            #expect(try await operations[number].response().value == body)
        }
        let sent = world.sent.events.map { "\($0.value(of: "X-Number") ?? "") \($0.value(of: "Range") ?? "")" }
        #expect(world.sent.count == loss.count + 1, "\(sent)")
        for number in lost { operations[number].cancel() }
    }

    @Test(arguments: Place.allCases)
    func aCancelledTransferDoesNotReplaceTheCompleteResponse(_ place: Place) async throws {
        let body = Data(repeating: 7, count: 40_000)
        let world = try CacheWorld(place) { _, number in
            let whole = Reply.resource(body, etag: "\"v\"", headerFields: [("Cache-Control", "max-age=60")])
            return number == 1 ? whole.stalling(afterBodyBytes: 20_000, until: gate) : whole
        }
        let first = world.manager.operation(world.request().retries(.never))
        let received = EventLog<Void>()
        first.onProgress { if $0.download.completedBytes > 0 { received.record(()) } }
        world.manager.enqueue(first)
        await received.wait()
        #expect(try await world.get { $0.cachePolicy(.reload) }.value == body)
        first.cancel()
        _ = try? await first.response()
        #expect(try await world.get().value == body)
        #expect(world.sent.count == 2)
        gate.open()
    }

    /// A request that takes over does not wait longer because of that.
    @Test(arguments: [true, false]) func requestsWaitFiveSecondsInAll(_ isCancelled: Bool) async throws {
        let world = try makeWorld()
        let (first, others) = try await self.others(world)
        world.clock.advance(by: .seconds(4))
        if isCancelled {
            first.cancel()
            try await gate.reached(count: 2)
        }
        #expect(world.sent.count == (isCancelled ? 2 : 1))
        world.clock.advance(by: .seconds(1))
        try await gate.reached(count: 5)
        gate.open()
        #expect(Set(try await Self.texts(others)).count == 4)
    }
}
