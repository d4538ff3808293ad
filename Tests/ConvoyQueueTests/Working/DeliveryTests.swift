import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// What is sent, how often, with which key, and who is asked.
@Suite struct QueueDeliveryTests {
    let place: StorePlace
    let manager = RequestManager(configuration: .init(maxConcurrentPerHost: 16))

    init() throws { place = try StorePlace() }

    private func makeQueue(_ change: (inout DurableQueue.Configuration) -> Void = { _ in }) throws -> DurableQueue {
        var configuration = DurableQueue.Configuration()
        configuration.retries.baseDelay = .milliseconds(1)
        change(&configuration)
        return try DurableQueue(at: place.file, manager: manager, configuration: configuration)
    }

    @Test func everyJobIsSentOnceWithAKeyOfItsOwn() async throws {
        let (server, queue) = (try KeyedServer(), try makeQueue())
        let jobs = try (1...500).map { number in
            try server.job("\(number)") {
                $0.request.body = .data(Data(repeating: 7, count: number == 9 ? 200_000 : number))
            }
        }
        #expect(try await queue.add(contentsOf: jobs).allSatisfy { $0.outcome == .added })
        let states = try await queue.states()
        #expect(states.count == 500 && states.values.allSatisfy { $0 == .done })
        let seen = server.all
        #expect(seen.requestCount == 500 && seen.bodySizes["9"] == 200_000 && seen.bodySizes["10"] == 10)
        #expect(jobs.allSatisfy { seen.keys[$0.id] == [$0.idempotencyKey] })
        #expect(Set(seen.keys.values.flatMap { $0 }).count == 500)
        await queue.close()
        let left = try FileManager.default.contentsOfDirectory(atPath: place.file.path + "-convoy/bodies")
        #expect(left == [])
    }

    @Test(arguments: [true, false])
    func aDrainEndsWhenTheLastJobIsCancelled(isUnderWay: Bool) async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in isUnderWay ? .status(200).stalling(until: gate) : .status(503) }
        let queue = try makeQueue { $0.retries.baseDelay = .seconds(600) }
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
        await drained
        gate.open()
        await queue.close()
    }

    @Test func aDrainEndsWhenAnotherProcessCancels() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let queue = try makeQueue { $0.retries.baseDelay = .seconds(600) }
        try await queue.add(server.job("a"))
        queue.start(otherwise: takesAll)
        async let drained: Void = queue.drain()
        while try await queue.store.job("a")?.attemptCount == 0 {}
        let other = try SQLiteStore(at: place.file)
        #expect(try await other.cancel(.all) == 1)
        await drained
        await other.close()
        await queue.close()
    }

    @Test func everyStopWaitsForTheEnd() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200).stalling(until: gate) }
        let queue = try makeQueue()
        try await queue.add(server.job("a"))
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 1, within: .seconds(60))
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { await queue.stop() } }
        }
        #expect(try await queue.status()[.waiting] == 1)
        gate.open()
        #expect(try await queue.states() == ["a": .done])
        await queue.close()
    }

    @Test func bodiesOfAnswersCanBeDropped() async throws {
        let server = try KeyedServer { _ in .body(Data("an answer".utf8)) }
        for ignoresBodies in [false, true] {
            let queue = try makeQueue { $0.ignoresBodies = ignoresBodies }
            try await queue.add(server.job("\(ignoresBodies)"))
            let told = Told<Data>()
            _ = try await queue.states(otherwise: { _, result in
                told.tell(result.body)
                return .done
            })
            #expect(told.all == [Data((ignoresBodies ? "" : "an answer").utf8)])
            await queue.close()
        }
    }

    @Test func eachOutcomeIsTold() async throws {
        let count = Locked(0)
        let server = try KeyedServer { request in
            if request.path == "/bad" { return .status(404) }
            return .status(
                count.withLock {
                    $0 += 1
                    return $0
                } == 1 ? 503 : 200)
        }
        let told = Told<String>()
        let queue = try makeQueue {
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
        await queue.close()
    }

    @Test func aFailureIsRetriedWithTheSameKey() async throws {
        let count = Locked(0)
        let server = try KeyedServer { _ in
            count.withLock { count in
                count += 1
                return count % 3 == 0 ? .status(200) : .status(503)
            }
        }
        let queue = try makeQueue()
        try await queue.add(server.job("a"))
        #expect(try await queue.states() == ["a": .done])
        #expect(server.all.requestCount == 3 && server.all.keys["a"]?.count == 1)
        let record = try #require(try await queue.store.job("a"))
        #expect(record.attempts.map(\.statusCode) == [503, 503, 200])
        await queue.close()
    }

    /// A file of the caller's, and one of the store's that something has removed.
    @Test func aBodyThatIsGoneIsADeadLetterThatNamesIt() async throws {
        let (server, queue) = (try KeyedServer(), try makeQueue())
        let file = place.directory.appending(path: "upload")
        try Data("x".utf8).write(to: file)
        try await queue.add(server.job("own") { $0.request.body = .file(file) })
        try await queue.add(server.job("kept") { $0.request.body = .data(Data(repeating: 1, count: 100_000)) })
        try FileManager.default.removeItem(at: file)
        let bodies = place.file.path + "-convoy/bodies"
        for name in try FileManager.default.contentsOfDirectory(atPath: bodies) {
            try FileManager.default.removeItem(atPath: bodies + "/" + name)
        }
        try await queue.add(server.job("whole"))
        #expect(try await queue.states(otherwise: nil) == ["own": .dead, "kept": .dead, "whole": .answered])
        #expect(server.all.order == ["whole"])
        let failure = try await queue.store.job("own")?.failure
        #expect(failure?.contains(file.path) == true, "\(failure ?? "nil")")
        let other = try await queue.store.job("kept")?.failure
        #expect(other?.contains(bodies) == true, "\(other ?? "nil")")
        // Back again, it goes.
        try Data("x".utf8).write(to: file)
        #expect(try await queue.retry(JobSelection(ids: ["own"])) == 1)
        await queue.drain()
        #expect(try await queue.store.state("own") == .answered)
        await queue.close()
    }

    @Test func handlersDecide() async throws {
        let server = try KeyedServer { $0.path == "/refused" ? .status(422, body: "no") : .status(200, body: "yes") }
        let queue = try makeQueue()
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
        await queue.close()
    }

    @Test func resultsThatNobodyHandlesAreBounded() async throws {
        let (server, queue) = (try KeyedServer(), try makeQueue { $0.maxWaitingResultCount = 3 })
        _ = try await queue.add(contentsOf: (1...10).map { try server.job("\($0)") })
        queue.start()
        try await server.server.requestsReceived(count: 3, within: .seconds(60))
        // Acknowledging makes room.
        var handled = 0
        while handled < 10 {
            let ids = try await queue.results().map(\.job.id)
            #expect(try await queue.status()[.answered] <= 3)
            handled += try await queue.acknowledge(JobSelection(ids: Set(ids)))
            await Task.yield()
        }
        #expect(server.all.requestCount == 10)
        await queue.close()
    }

    @Test func aGroupGoesInItsOrder() async throws {
        let server = try KeyedServer { $0.path == "/3" && $0.numberOnConnection % 2 == 1 ? .status(503) : .status(200) }
        let queue = try makeQueue()
        _ = try await queue.add(contentsOf: (1...20).map { number in try server.job("\(number)") { $0.group = "g" } })
        #expect(try await queue.states().values.allSatisfy { $0 == .done })
        #expect(server.all.order == (1...20).map { "\($0)" })
        await queue.close()
    }

    @Test func cancellingBreaksOffWhatIsBeingSent() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200, body: "body").stalling(afterBodyBytes: 0, until: gate) }
        let queue = try makeQueue()
        _ = try await queue.add(contentsOf: [server.job("a"), server.job("b") { $0.dependencies = ["a"] }])
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 1, within: .seconds(60))
        #expect(try await queue.cancel(JobSelection(ids: ["a"])) == 2)
        try await server.server.connectionsClosed(count: 1, within: .seconds(60))
        gate.open()
        await queue.drain()
        #expect(try await queue.store.states() == ["a": .cancelled, "b": .cancelled])
        await queue.close()
    }

    @Test func stoppingGivesBackAndAnotherGoesOn() async throws {
        let gate = Gate()
        let server = try KeyedServer { _ in .status(200, body: "body").stalling(afterBodyBytes: 0, until: gate) }
        let queue = try makeQueue()
        _ = try await queue.add(contentsOf: (1...5).map { try server.job("\($0)") })
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 5, within: .seconds(60))
        await queue.stop()
        #expect(try await queue.status()[.waiting] == 5)
        gate.open()
        let other = try makeQueue()
        #expect(try await other.states().values.allSatisfy { $0 == .done })
        #expect(server.all.requestCount == 10 && server.all.keys.values.allSatisfy { $0.count == 1 })
        // Started again, it takes what comes.
        try await queue.add(server.job("6"))
        #expect(try await queue.states()["6"] == .done)
        await queue.close()
        await other.close()
    }

    @Test func twoQueuesShareAFile() async throws {
        let server = try KeyedServer()
        let (one, two) = (try makeQueue(), try makeQueue())
        let mine = Told<String>()
        one.start(otherwise: { job, _ in
            mine.tell(job.id)
            return .done
        })
        two.start(otherwise: takesAll)
        _ = try await two.add(contentsOf: (1...300).map { try server.job("\($0)") })
        await two.drain()
        await one.drain()
        #expect(server.all.requestCount == 300 && server.all.keys.values.allSatisfy { $0.count == 1 })
        #expect(try await one.status()[.done] == 300)
        await one.close()
        await two.close()
    }

    @Test func aDownloadIsSavedAndContinued() async throws {
        let server = try TestServer()
        let isCut = Locked(true)
        server.respond { _ in
            let whole = Reply.resource(generatedByteCount: 3_000_000, etag: "\"v1\"")
            return isCut.withLock { isCut in
                defer { isCut = false }
                return isCut ? whole.resetting(afterBytes: 2_000_000) : whole
            }
        }
        let queue = try makeQueue()
        let file = place.directory.appending(path: "download")
        try await queue.add(Job("test", JobRequest(url: server.url("/file"), destination: file), id: "a"))
        #expect(try await queue.states() == ["a": .done])
        #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<3_000_000))
        #expect(server.recordedRequests.last?.value(of: "Range") != nil)
        await queue.close()
    }

    @Test func aQueueWhoseManagerIsShutDownStandsStill() async throws {
        let (server, queue) = (try KeyedServer(), try makeQueue())
        try await queue.add(server.job("a"))
        manager.shutDown()
        queue.start(otherwise: takesAll)
        await queue.drain()
        await queue.stop()
        #expect(try await queue.store.states() == ["a": .waiting])
        #expect(server.all.requestCount == 0)
        await queue.close()
    }

    @Test func aJobWhoseProcessEndsAgainAndAgainIsADeadLetter() async throws {
        let server = try KeyedServer()
        let store = MemoryStore(place.memory, clock: place.clock)
        try await store.add(server.job("a"))
        for _ in 1...3 {
            let crashing = MemoryStore(place.memory, clock: place.clock)
            #expect(try await crashing.claim(lease: .seconds(1)).count == 1)
            place.clock.advance(by: .seconds(2))
            #expect(try await store.claim(0).isEmpty)
            place.clock.advance(by: .seconds(2))
        }
        let queue = DurableQueue(store: store, manager: manager)
        #expect(try await queue.states() == ["a": .dead])
        #expect(server.all.requestCount == 0)
        let failure = try await store.job("a")?.failure
        #expect(failure?.hasPrefix("its process ended, or stood still, 3 times") == true, "\(failure ?? "")")
        await queue.close()
    }

    @Test func whyTellsWhatAJobWaitsFor() async throws {
        let server = try KeyedServer { _ in .status(503) }
        let queue = try makeQueue { $0.retries.baseDelay = .seconds(7_000) }
        _ = try await queue.add(contentsOf: [
            server.job("a"), server.job("b") { $0.dependencies = ["a"] },
            server.job("c") { $0.notBefore = Date.now + 1_000 },
        ])
        #expect(try await queue.why("a") == "it may be sent, and waits for its turn")
        #expect(try await queue.why("b") == "it waits for a (dependency, waiting)")
        #expect(try await queue.why("c").hasPrefix("it waits for its date, in 99"))
        #expect(try await queue.why("d") == "there is no job d")
        queue.start(otherwise: takesAll)
        try await server.server.requestsReceived(count: 1, within: .seconds(60))
        while try await queue.store.job("a")?.attemptCount == 0 { await Task.yield() }
        #expect(try await queue.why("a").contains("attempt 1 ended with the server answered 503"))
        await queue.close()
    }
}
