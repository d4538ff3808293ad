import Convoy
import ConvoyQueue
import ConvoySQLite
import ConvoyTesting
import Foundation
import Testing

/// Tests how drains, stops and cancellations end.
@Suite struct QueueEndingTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test(arguments: [true, false])
    func aDrainEndsWhenTheLastJobIsCancelled(isUnderWay: Bool) async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in isUnderWay ? .status(200).stalling(until: gate) : .status(503) }
        let queue = try place.makeQueue { $0.retries.baseDelay = .seconds(600) }
        try await queue.add(server.job("a"))
        queue.start(otherwise: takesAll)
        async let drained: Void = queue.drain()
        if isUnderWay {
            try await gate.reached(count: 1, within: .seconds(60))
        } else {
            try await server.server.requestsReceived(count: 1, within: .seconds(60))
            while try await queue.store.job("a")?.attemptCount == 0 {}
        }
        #expect(try await queue.cancel(.all) == 1)
        if isUnderWay { try await server.server.connectionsClosed(count: 1, within: .seconds(60)) }
        await drained
        gate.open()
    }

    @Test func stoppingReleasesJobsForAnotherQueue() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200, body: "body").stalling(afterBodyBytes: 0, until: gate) }
        let queue = try place.makeQueue()
        _ = try await queue.add(contentsOf: (1...5).map { try server.job("\($0)") })
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 5, within: .seconds(60))
        // Each call waits for the end.
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { await queue.stop() } }
        }
        #expect(try await queue.status()[.waiting] == 5)
        gate.open()
        let other = try place.makeQueue()
        #expect(try await other.states().values.allSatisfy { $0 == .done })
        #expect(server.all.requestCount == 10 && server.all.keys.values.allSatisfy { $0.count == 1 })
        // After a restart the queue processes new jobs.
        try await queue.add(server.job("6"))
        #expect(try await queue.states()["6"] == .done)
    }

    @Test func aQueueWhoseManagerIsShutDownSendsNothing() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue())
        try await queue.add(server.job("a"))
        queue.manager.shutDown()
        queue.start(otherwise: takesAll)
        await queue.drain()
        await queue.stop()
        #expect(try await queue.store.states() == ["a": .waiting])
        #expect(server.all.requestCount == 0)
    }

    @Test func stoppingMayWaitForRunningJobs() async throws {
        let (gate, server, queue) = try await place.hanging(40, sent: 16)
        async let stopped: Void = queue.stop(finishingWithin: .seconds(100))
        try await look { try await queue.status()[.waiting] >= 24 }
        gate.open()
        await stopped
        let status = try await queue.status()
        #expect(status[.done] == 16 && status[.waiting] == 24 && status[.claimed] == 0)
        #expect(server.all.requestCount == 16)
    }

    @Test func jobsThatDoNotEndInTimeAreReleased() async throws {
        let (gate, _, queue) = try await place.hanging(1, sent: 1)
        await queue.stop(finishingWithin: .milliseconds(10))
        #expect(try await queue.status()[.waiting] == 1)
        // A second call has no effect, nor has a call for a queue that does not run.
        await queue.stop(finishingWithin: .seconds(100))
        gate.open()
    }

    @Test(arguments: [true, false])
    func handlersReceiveTheResultAfterTheLastRetry(isTaken: Bool) async throws {
        let server = try KeyedServer { _ in .status(503) }
        let queue = try place.makeQueue { $0.retries.maxRetries = 2 }
        try await queue.add(server.job("a"))
        let told = Told<JobResult>()
        let states = try await queue.states(otherwise: told.handler(isTaken ? .done : .retry(after: .zero)))
        #expect(states == ["a": isTaken ? .done : .dead])
        let result = try #require(told.all.first)
        #expect(told.all.count == 1 && result.isGivenUp && result.attemptCount == 3 && result.statusCode == 503)
        #expect(result.failure?.hasPrefix("given up after 3 attempts: ") == true)
        #expect(server.all.requestCount == 3)
    }

    @Test func theRetriesOfAHandlerAreBounded() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue { $0.retries.maxRetries = 2 })
        try await queue.add(server.job("a"))
        let told = Told<JobResult>()
        #expect(try await queue.states(otherwise: told.handler(.retry(after: .zero))) == ["a": .dead])
        #expect(told.all.map(\.attemptCount) == [1, 2, 3] && server.all.requestCount == 3)
        #expect(try await queue.store.job("a")?.failure == "given up after 3 attempts: its handler asked for another")
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
        for isFirst in [true, false] {
            let queue = try place.makeQueue(manager) { $0.retries = RetryPolicy(maxRetries: 3, baseDelay: .zero) }
            if isFirst { try await queue.add(server.job("a")) } else { _ = try await queue.retry(.all) }
            _ = try await queue.states(otherwise: nil)
            await queue.close()
        }
        // A retried dead letter starts a new count.
        #expect(told.all == [1, 2, 3, 4, 1, 2, 3, 4])
    }

    /// The clock never reaches the heartbeat.
    @Test func aCancellationByAnotherProcessEndsTheRequestAtOnce() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200, body: "body").stalling(afterBodyBytes: 0, until: gate) }
        let manager = RequestManager(configuration: .init(clock: place.clock))
        let told = Told<String>()
        let queue = try place.makeQueue(manager) { $0.onOutcome = { job, _, _ in told.tell(job.id) } }
        for id in ["a", "b"] { try await queue.add(server.job(id)) }
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 2, within: .seconds(60))
        let other = try SQLiteStore(at: place.file, clock: place.clock)
        for (count, id) in [(1, "a"), (2, "b")] {
            #expect(try await other.cancel(JobSelection(ids: [id])) == 1)
            try await server.server.connectionsClosed(count: count, within: .seconds(60))
        }
        gate.open()
        await queue.drain()
        #expect(try await other.states() == ["a": .cancelled, "b": .cancelled])
        #expect(told.all.isEmpty)
    }

    /// Another program cancels the job without a notification, so the queue learns of it when it settles the job.
    @Test func anOutcomeIsReportedWhenItIsStoredAndNotForACancelledJob() async throws {
        let (server, told, file) = (try KeyedServer(), Told<String>(), place.file.path)
        let queue = try place.makeQueue {
            $0.onOutcome = { job, verdict, attempt in
                let state = try? SQLiteConnection(file).number("SELECT state FROM job WHERE id = ?", .text(job.id))
                told.tell("\(job.id) \(verdict == .done) \(attempt?.statusCode ?? 0) \(state ?? -1)")
            }
        }
        _ = try await queue.add(contentsOf: [server.job("a"), server.job("b") { $0.priority = .low }])
        let states = try await queue.states(otherwise: { job, _ in
            let cancellation = "UPDATE job SET state = 7, owner = NULL WHERE id = 'a'"
            if job.id == "a" { #expect(throws: Never.self) { try SQLiteConnection(file).execute(cancellation) } }
            return .done
        })
        #expect(states == ["a": .cancelled, "b": .done])
        #expect(told.all == ["b true 200 5"])
    }
}
