import Convoy
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Tests who receives the outcome of a job.
@Suite struct QueueOutcomeTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test func eachOutcomeIsReported() async throws {
        let isTried = Gate()
        let server = try KeyedServer { request in
            if request.path == "/bad" { return .status(404) }
            defer { isTried.open() }
            return .status(isTried.isOpen ? 200 : 503)
        }
        let told = Told<String>()
        let queue = try place.makeQueue {
            $0.onOutcome = { job, verdict, attempt in
                let word =
                    switch verdict {
                    case .done: "done"
                    case .retry: "retry"
                    case .dead: "dead"
                    case .answered, .release: "another"
                    }
                told.tell("\(job.id) \(word) \(attempt?.statusCode ?? 0)")
            }
        }
        try await queue.add(contentsOf: [server.job("good") { $0.group = "g" }, server.job("bad") { $0.group = "g" }])
        _ = try await queue.states(otherwise: { _, result in result.failure.map(JobDecision.fail) ?? .done })
        #expect(told.all == ["good retry 503", "good done 200", "bad dead 404"])
    }

    @Test func handlersDecide() async throws {
        let server = try KeyedServer { $0.path == "/refused" ? .status(422, body: "no") : .status(200, body: "yes") }
        let queue = try place.makeQueue()
        let told = Told<String>()
        _ = try await queue.add(contentsOf: [
            server.job("done"), server.job("again"), server.job("failed"), server.job("refused"),
            server.job("other", kind: "other"),
        ])
        let handler: DurableQueue.Handler = { job, result in
            let isAgain = told.all.contains { $0.hasPrefix("again") }
            told.tell("\(job.id) \(result.statusCode ?? 0) \(String(decoding: result.body, as: UTF8.self))")
            switch job.id {
            case "again" where !isAgain: return .retry(after: .milliseconds(1))
            case "failed": return .fail("not what was expected")
            case "refused": return .fail(result.failure ?? "")
            default: return .done
            }
        }
        queue.start(["test": handler])
        await queue.drain()
        #expect(
            try await queue.store.states() == [
                "done": .done, "again": .done, "failed": .dead, "refused": .dead, "other": .answered,
            ])
        #expect(
            told.all.sorted() == ["again 200 yes", "again 200 yes", "done 200 yes", "failed 200 yes", "refused 422 no"])
        let dead = try await queue.deadLetters()
        #expect(Set(dead.map(\.failure)) == ["not what was expected", "the server answered 422"])
        let results = try await queue.results()
        #expect(results.map(\.job.id) == ["other"])
        #expect(results.first?.result.body == Data("yes".utf8))
        #expect(try await queue.acknowledge(JobSelection(ids: ["other"])) == 1)
        #expect(try await queue.results().isEmpty)
    }

    @Test func resultsThatNobodyHandlesAreBounded() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue { $0.maxWaitingResultCount = 3 })
        _ = try await queue.add(contentsOf: (1...10).map { try server.job("\($0)") })
        queue.start()
        try await server.server.requestsReceived(count: 3, within: .seconds(60))
        // Acknowledged results make room for further jobs.
        var handled = 0
        while handled < 10 {
            let ids = try await queue.results().map(\.job.id)
            #expect(try await queue.status()[.answered] <= 3)
            handled += try await queue.acknowledge(JobSelection(ids: Set(ids)))
            await Task.yield()
        }
        #expect(server.all.requestCount == 10)
    }

    @Test func whyNamesTheReasonOfAWait() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let queue = try place.makeQueue { $0.retries.baseDelay = .seconds(7_000) }
        _ = try await queue.add(contentsOf: [
            server.job("a"), server.job("b") { $0.dependencies = ["a"] },
            server.job("c") { $0.notBefore = Date.now + 1_000 },
        ])
        #expect(try await queue.why("a") == "it is ready, and waits for its turn")
        #expect(try await queue.why("b") == "it waits for a (dependency, waiting)")
        #expect(try await queue.why("c").hasPrefix("it waits for its date, in 99"))
        #expect(try await queue.why("d") == "no job has the id d")
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 1, within: .seconds(60))
        try await look { try await queue.store.job("a")?.attemptCount != 0 }
        #expect(try await queue.why("a").contains("attempt 1 ended with the server answered 503"))
    }

    @Test(arguments: [JobDecision.done, .retry(after: .zero), .fail("too late")])
    func handlersReceiveTheResultOfAnExpiredJob(decision: JobDecision) async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue())
        try await queue.add(server.job("a") { $0.expires = Date.now - 1 })
        let told = Told<JobResult>()
        let states = try await queue.states(otherwise: told.handler(decision))
        #expect(states == ["a": decision == .done ? .done : .dead])
        let result = try #require(told.all.first)
        #expect(told.all.count == 1 && result.isExpired && result.isGivenUp && result.attemptCount == 0)
        let reason = decision == .done ? nil : decision == .fail("too late") ? "too late" : JobRecord.expired
        #expect(try await queue.store.job("a")?.failure == reason)
        #expect(server.all.requestCount == 0)
    }

    /// The job expires between two attempts.
    @Test func anExpiredResultHasTheNumberOfAttempts() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        var configuration = DurableQueue.Configuration()
        configuration.retries = RetryPolicy(maxRetries: 9, baseDelay: .seconds(100))
        let queue = DurableQueue(store: store, manager: RequestManager(), configuration: configuration)
        let date = place.clock.date
        try await queue.add(server.job("a") { $0.expires = date + 10 })
        let told = Told<JobResult>()
        queue.start(otherwise: told.handler())
        try await look { try await store.job("a")?.attemptCount != 0 }
        place.clock.advance(by: .seconds(11))
        // Adding a job makes the queue query the store, which now finds the expiry.
        try await queue.add(server.job("b") { $0.expires = date })
        try await look { try await store.status()[.done] >= 2 }
        #expect(told.all.map(\.attemptCount).sorted() == [0, 1] && told.all.allSatisfy(\.isExpired))
        #expect(server.all.requestCount == 1)
    }

    /// A process ends while its handler runs.
    @Test func aHandlerReceivesAnExpiryAgainAfterACrash() async throws {
        let server = try KeyedServer()
        let crashing = try SQLiteStore(at: place.file, clock: place.clock)
        try await crashing.add(server.job("a") { $0.expires = place.clock.date })
        #expect(try await crashing.claim(lease: .seconds(1), answered: .all).first?.result?.isExpired == true)
        place.clock.advance(by: .seconds(2))
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        let told = Told<JobResult>()
        let states = try await DurableQueue(store: store, manager: RequestManager()).states(otherwise: told.handler())
        #expect(states == ["a": .done] && told.all.map(\.isExpired) == [true] && server.all.requestCount == 0)
    }
}
