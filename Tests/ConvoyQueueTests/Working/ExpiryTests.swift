import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests what handlers receive for expired jobs.
@Suite struct QueueExpiryTests {
    let place: StorePlace
    let manager = RequestManager(configuration: .init(maxConcurrentPerHost: 16))

    init() throws { place = try StorePlace() }

    @Test(arguments: [JobDecision.done, .retry(after: .zero), .fail("too late")])
    func handlersReceiveTheResultOfAnExpiredJob(decision: JobDecision) async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue(manager))
        try await queue.add(server.job("a") { $0.expires = Date.now - 1 })
        let told = Told<JobResult>()
        let states = try await queue.states(otherwise: { _, result in
            told.tell(result)
            return decision
        })
        #expect(states == ["a": decision == .done ? .done : .dead])
        let result = try #require(told.all.first)
        #expect(told.all.count == 1 && result.isExpired && result.isGivenUp && result.attemptCount == 0)
        let reason = decision == .done ? nil : decision == .fail("too late") ? "too late" : JobRecord.expired
        #expect(try await queue.store.job("a")?.failure == reason)
        #expect(server.all.requestCount == 0)
        await queue.close()
    }

    /// The job expires between two attempts.
    ///
    /// The handler receives the number of attempts.
    @Test func anExpiredResultHasTheNumberOfAttempts() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let store = MemoryStore(place.memory, clock: place.clock)
        var configuration = DurableQueue.Configuration()
        configuration.retries = RetryPolicy(maxRetries: 9, baseDelay: .seconds(100))
        let queue = DurableQueue(store: store, manager: manager, configuration: configuration)
        let date = place.clock.date
        try await queue.add(server.job("a") { $0.expires = date + 10 })
        let told = Told<JobResult>()
        queue.start(otherwise: { _, result in
            told.tell(result)
            return .done
        })
        try await look { try await store.job("a")?.attemptCount != 0 }
        place.clock.advance(by: .seconds(11))
        // Adding a job makes the queue query the store, which now finds the expiry.
        try await queue.add(server.job("b") { $0.expires = date })
        try await look { try await store.status()[.done] >= 2 }
        #expect(told.all.map(\.attemptCount).sorted() == [0, 1] && told.all.allSatisfy(\.isExpired))
        #expect(server.all.requestCount == 1)
        await queue.close()
    }

    @Test func anExpiredJobWithoutAHandlerIsADeadLetter() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue(manager))
        try await queue.add(server.job("a") { $0.expires = Date.now - 1 })
        try await queue.add(server.job("b", kind: "other") { $0.expires = Date.now - 1 })
        let told = Told<String>()
        let handler: DurableQueue.Handler = { job, _ in
            told.tell(job.id)
            return .done
        }
        #expect(try await queue.states(handlers: ["test": handler], otherwise: nil) == ["a": .done, "b": .dead])
        #expect(told.all == ["a"])
        await queue.close()
    }

    /// A process ends while its handler runs.
    ///
    /// The next process calls the handler again.
    @Test func aHandlerReceivesAnExpiryAgainAfterACrash() async throws {
        let server = try KeyedServer()
        let crashing = MemoryStore(place.memory, clock: place.clock)
        try await crashing.add(server.job("a") { $0.expires = place.clock.date })
        #expect(try await crashing.claim(lease: .seconds(1), answered: .all).first?.result?.isExpired == true)
        place.clock.advance(by: .seconds(2))
        let queue = DurableQueue(store: MemoryStore(place.memory, clock: place.clock), manager: manager)
        let told = Told<Bool>()
        let states = try await queue.states(otherwise: { _, result in
            told.tell(result.isExpired)
            return .done
        })
        #expect(states == ["a": .done] && told.all == [true] && server.all.requestCount == 0)
        await queue.close()
    }
}
