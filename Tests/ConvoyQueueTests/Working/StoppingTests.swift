import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests how the queue stops, and how the attempts of a job end.
@Suite struct QueueStoppingTests {
    let place: StorePlace
    let manager = RequestManager(configuration: .init(maxConcurrentPerHost: 16))

    init() throws { place = try StorePlace() }

    private func makeQueue(_ change: (inout DurableQueue.Configuration) -> Void = { _ in }) throws -> DurableQueue {
        try place.makeQueue(manager, change)
    }

    @Test func stoppingMayWaitForRunningJobs() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200).stalling(until: gate) }
        let queue = try makeQueue()
        _ = try await queue.add(contentsOf: (1...40).map { try server.job("\($0)") })
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 16, within: .seconds(60))
        async let stopped: Void = queue.stop(finishingWithin: .seconds(100))
        try await look { try await queue.status()[.waiting] >= 24 }
        gate.open()
        await stopped
        let status = try await queue.status()
        #expect(status[.done] == 16 && status[.waiting] == 24 && status[.claimed] == 0)
        #expect(server.all.requestCount == 16)
        await queue.close()
    }

    @Test func jobsThatDoNotEndInTimeAreReleased() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200).stalling(until: gate) }
        let queue = try makeQueue()
        try await queue.add(server.job("a"))
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 1, within: .seconds(60))
        await queue.stop(finishingWithin: .milliseconds(10))
        #expect(try await queue.status()[.waiting] == 1)
        // A second call has no effect, nor has a call for a queue that does not run.
        await queue.stop(finishingWithin: .seconds(100))
        gate.open()
        await queue.close()
    }

    @Test(arguments: [true, false])
    func handlersReceiveTheResultAfterTheLastRetry(isTaken: Bool) async throws {
        let server = try KeyedServer { _ in .status(503) }
        let queue = try makeQueue { $0.retries.maxRetries = 2 }
        try await queue.add(server.job("a"))
        let told = Told<JobResult>()
        let states = try await queue.states(otherwise: { _, result in
            told.tell(result)
            return isTaken ? .done : .retry(after: .zero)
        })
        #expect(states == ["a": isTaken ? .done : .dead])
        let result = try #require(told.all.first)
        #expect(told.all.count == 1 && result.isGivenUp && result.attemptCount == 3 && result.statusCode == 503)
        #expect(result.failure?.hasPrefix("given up after 3 attempts: ") == true)
        #expect(server.all.requestCount == 3)
        await queue.close()
    }

    @Test func theRetriesOfAHandlerAreBounded() async throws {
        let (server, queue) = (try KeyedServer(), try makeQueue { $0.retries.maxRetries = 2 })
        try await queue.add(server.job("a"))
        let told = Told<Int>()
        let states = try await queue.states(otherwise: { _, result in
            told.tell(result.attemptCount)
            return .retry(after: .zero)
        })
        #expect(states == ["a": .dead] && told.all == [1, 2, 3] && server.all.requestCount == 3)
        #expect(try await queue.store.job("a")?.failure == "given up after 3 attempts: its handler asked for another")
        await queue.close()
    }

    private struct Numbering: RequestInterceptor {
        let told: Told<Int>

        func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
            told.tell(attempt.number)
            return request
        }
    }

    @Test func attemptsAreNumberedAcrossStarts() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let told = Told<Int>()
        let manager = RequestManager(configuration: .init(interceptors: [Numbering(told: told)]))
        var configuration = DurableQueue.Configuration()
        configuration.retries = RetryPolicy(maxRetries: 3, baseDelay: .zero)
        for isFirst in [true, false] {
            let queue = try DurableQueue(at: place.file, manager: manager, configuration: configuration)
            if isFirst { try await queue.add(server.job("a")) } else { _ = try await queue.retry(.all) }
            _ = try await queue.states(otherwise: nil)
            await queue.close()
        }
        // A retried dead letter starts a new count.
        #expect(told.all == [1, 2, 3, 4, 1, 2, 3, 4])
    }
}
