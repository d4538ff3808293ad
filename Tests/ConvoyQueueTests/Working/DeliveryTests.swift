import Convoy
import ConvoyQueue
import ConvoySQLite
import ConvoyTesting
import Foundation
import Testing

/// Tests which requests are sent, how often, and with which key.
@Suite struct QueueDeliveryTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test func everyJobIsSentOnceWithAKeyOfItsOwn() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue())
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

    @Test func bodiesOfAnswersCanBeDropped() async throws {
        let server = try KeyedServer { _ in .body(Data("an answer".utf8)) }
        for ignoresBodies in [false, true] {
            let queue = try place.makeQueue { $0.ignoresBodies = ignoresBodies }
            try await queue.add(server.job("\(ignoresBodies)"))
            let told = Told<JobResult>()
            _ = try await queue.states(otherwise: told.handler())
            #expect(told.all.map(\.body) == [Data((ignoresBodies ? "" : "an answer").utf8)])
            await queue.close()
        }
    }

    @Test func aFailureIsRetriedWithTheSameKey() async throws {
        let count = Locked(0)
        let server = try KeyedServer { _ in
            count.withLock { count in
                count += 1
                return count % 3 == 0 ? .status(200) : .status(503)
            }
        }
        let queue = try place.makeQueue()
        try await queue.add(server.job("a"))
        #expect(try await queue.states() == ["a": .done])
        #expect(server.all.requestCount == 3 && server.all.keys["a"]?.count == 1)
        let record = try #require(try await queue.store.job("a"))
        #expect(record.attempts.map(\.statusCode) == [503, 503, 200])
    }

    /// The body is a missing file, either of the caller or of the store.
    @Test func aBodyThatIsGoneIsADeadLetterThatNamesIt() async throws {
        let (server, queue) = (try KeyedServer(), try place.makeQueue())
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
        // After the file is restored, the job is sent.
        try Data("x".utf8).write(to: file)
        #expect(try await queue.retry(JobSelection(ids: ["own"])) == 1)
        await queue.drain()
        #expect(try await queue.store.state("own") == .answered)
    }

    @Test func aGroupGoesInItsOrder() async throws {
        let server = try KeyedServer { $0.path == "/3" && $0.numberOnConnection % 2 == 1 ? .status(503) : .status(200) }
        let queue = try place.makeQueue()
        _ = try await queue.add(contentsOf: (1...20).map { number in try server.job("\(number)") { $0.group = "g" } })
        #expect(try await queue.states().values.allSatisfy { $0 == .done })
        #expect(server.all.order == (1...20).map { "\($0)" })
    }

    /// The process was stopped for longer than its lease, and no other process has taken its job.
    @Test func aPauseBeyondTheLeaseSendsNothingTwice() async throws {
        let manager = RequestManager(configuration: .init(clock: place.clock))
        let (gate, server, queue) = try await place.hanging(1, sent: 1, manager)
        let connection = try SQLiteConnection(place.file.path)
        func end() throws -> Int64 { try connection.number("SELECT max(ends) FROM owner") ?? 0 }
        let before = try end()
        place.clock.advance(by: .seconds(40))
        try await look { try end() > before }
        gate.open()
        await queue.drain()
        #expect(try await queue.store.states() == ["1": .done])
        #expect(server.all.requestCount == 1)
    }

    /// Ends the process of a download again and again, and checks how often its job is sent again.
    ///
    /// - Parameter isGrowing: whether each process but the first receives a few bytes.
    @Test(arguments: [true, false])
    func lostProcessesCountAgainstADownloadOnlyWhileItsFileDoesNotGrow(isGrowing: Bool) async throws {
        let (gate, server) = (Gate(), try TestServer())
        let whole = Reply.resource(generatedByteCount: 8_000_000, etag: "\"v1\"")
        server.respond { request in
            if gate.isOpen { return whole }
            return request.value(of: "Range") == nil
                ? whole.stalling(afterBodyBytes: 3_000_000, until: gate) : whole.stalling(until: gate)
        }
        let file = place.directory.appending(path: "film")
        let part = place.directory.appending(path: ".film.convoy-part")
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        let manager = RequestManager(configuration: .init(clock: place.clock))
        let outcomes = Told<String>()
        var configuration = DurableQueue.Configuration()
        configuration.onOutcome = { _, verdict, _ in outcomes.tell("\(verdict)") }
        let queue = DurableQueue(store: store, manager: manager, configuration: configuration)
        try await queue.add(Job("test", JobRequest(url: server.url("/film"), destination: file), id: "a"))
        queue.start(otherwise: takesAll)
        await look { (try? Data(contentsOf: part).count) ?? 0 >= 2_000_000 }
        await queue.stop()
        for _ in 1...2 {
            for _ in 1...3 {
                let crashing = try SQLiteStore(at: place.file, clock: place.clock)
                #expect(try await crashing.claim(lease: .seconds(1)).count == 1)
                place.clock.advance(by: .seconds(2))
                #expect(try await store.claim(0).isEmpty)
                place.clock.advance(by: .seconds(70))
            }
            if isGrowing {
                // The bytes are those that the server would have sent next.
                let count = try Data(contentsOf: part).count
                let handle = try FileHandle(forWritingTo: part)
                try handle.seekToEnd()
                try handle.write(contentsOf: Reply.pattern(range: Int64(count)..<Int64(count) + 1_000))
                try handle.close()
            }
            let before = server.requestCount
            queue.start(otherwise: takesAll)
            try await look {
                let state = try await store.state("a")
                return state == .dead || server.requestCount > before
            }
            if try await store.state("a") != .dead {
                #expect(try await store.job("a")?.life.lapseCount == 0)
            }
            await queue.stop()
        }
        #expect(try await store.state("a") == (isGrowing ? .waiting : .dead))
        #expect(outcomes.all.count == (isGrowing ? 0 : 1), "\(outcomes.all)")
        gate.open()
        if isGrowing {
            #expect(try await queue.states() == ["a": .done])
            #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<8_000_000))
            #expect(server.recordedRequests.last?.value(of: "Range") != nil)
        } else {
            let failure = try await store.job("a")?.failure
            #expect(failure?.hasPrefix("its process ended or stopped 3 times") == true, "\(failure ?? "")")
        }
    }

    @Test(arguments: [false, true])
    func aJobWaitsForItsFileWithoutUsingUpRetries(expires: Bool) async throws {
        let (gate, clock) = (Gate(), place.clock)
        let server = try TestServer()
        server.respond { request in
            guard request.path == "/other" else { return .status(200, body: "the job's") }
            return .status(200, body: "the other's").stalling(afterBodyBytes: 0, until: gate)
        }
        let file = place.directory.appending(path: "file")
        let other = RequestManager()
        let holder = other.download(.get(server.url("/other")), to: file)
        try await gate.reached(count: 1, within: .seconds(60))
        let manager = RequestManager(configuration: .init(clock: clock))
        let told = Told<String>()
        let queue = try place.makeQueue(manager) {
            $0.retries.maxRetries = 0
            $0.onOutcome = { _, verdict, attempt in
                told.tell("\(verdict) \(attempt?.failure ?? "no failure")")
            }
        }
        var job = Job("test", JobRequest(url: server.url("/job"), destination: file), id: "a")
        if expires { job.expires = clock.date + 1_000 }
        try await queue.add(job)
        queue.start(otherwise: { _, result in result.failure.map(JobDecision.fail) ?? .done })
        // The clock stands while the job runs, so that its lease does not end.
        func advance(by step: Duration, until isTrue: (JobRecord?) -> Bool) async throws {
            try await look {
                let record = try await queue.store.job("a")
                if isTrue(record) { return true }
                if record?.state == .waiting { clock.advance(by: step) }
                return false
            }
        }
        let retry = "\(JobVerdict.retry(after: .seconds(10))) destinationInUse"
        try await advance(by: .seconds(1)) { _ in told.all.count >= 2 }
        #expect(told.all.prefix(2) == [retry, retry])
        #expect(try await queue.store.job("a")?.attemptCount == 0)
        if !expires {
            gate.open()
            _ = try await holder.response()
        }
        try await advance(by: .seconds(expires ? 100 : 1)) { $0?.state.isFinished == true }
        #expect(try await queue.store.state("a") == (expires ? .dead : .done))
        #expect(server.recordedRequests.map(\.path) == (expires ? ["/other"] : ["/other", "/job"]))
        if !expires { #expect(try Data(contentsOf: file) == Data("the job's".utf8)) }
        gate.open()
        other.shutDown()
    }

    @Test func theBackOffIsStoredAndNothingTurnsInCircles() async throws {
        let (clock, sent) = (place.clock, Told<Duration>())
        let stub = StubTransport(clock: clock)
        stub.route(.post, "/a") { _ in
            sent.tell(clock.elapsed)
            return clock.elapsed < .seconds(10_000) ? .failure(.connectionFailed) : .status(200)
        }
        let manager = RequestManager(
            configuration: .init(transport: .custom(stub), clock: clock, jitter: { 1 }))
        var queue = try DurableQueue(at: place.file, manager: manager)
        let url = try #require(URL(string: "http://example.com/a"))
        let jobs = (1...20).map { Job("test", JobRequest(method: .post, url: url), id: "\($0)") }
        try await queue.add(contentsOf: jobs)
        queue.start(otherwise: takesAll)
        var moves = 0
        while try await queue.status()[.done] < 20, moves < 50_000 {
            if moves == 30 {
                // A second queue continues with the same file, like another process.
                await queue.close()
                queue = try DurableQueue(at: place.file, manager: manager)
                queue.start(otherwise: takesAll)
            }
            // No timer is set while the last outcome is being written.
            do { try await clock.advanceToNextTimer(within: .seconds(1)) } catch { continue }
            moves += 1
        }
        #expect(try await queue.status()[.done] == 20)
        // The clock also advances while an outcome is being written, so the exact time depends on the machine.
        #expect(clock.elapsed >= .seconds(10_000))
        // Delays of 1, 2, 4 … 512 s and then 900 s result in 20 failed attempts and a successful one. Closing cancels
        // attempts, which are sent again.
        #expect(sent.all.count <= 20 * 30, "\(sent.all.count) requests")
        print("10,000 s away: \(sent.all.count) requests of 20 jobs, \(moves) timers")
    }
}
