import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct BatchTests {
    @Test func resultsAreInInputOrder() async {
        let (server, manager) = StubServer.held().withManager(4, perHost: 4)
        let batch = manager.batch((0..<4).map { Request<Data>.stub("\($0)") })
        let exchanges = await server.exchanges.wait(count: 4)
        for exchange in exchanges.reversed() { exchange.answer(200, body: Data(exchange.request.url.path.utf8)) }
        let bodies = await batch.results.map { (try? $0.get().value).map { String(decoding: $0, as: UTF8.self) } }
        #expect(bodies == ["/0", "/1", "/2", "/3"])
    }

    @Test func anEmptyBatchFinishes() async {
        let batch = StubServer().manager().batch([Request<Data>]())
        #expect(await batch.results.isEmpty)
        #expect(batch.currentProgress.totalCount == 0 && batch.currentProgress.fractionCompleted == 1)
    }

    @Test func failFastCancelsTheRest() async {
        let server = StubServer { if $0.request.url.path == "/1" { $0.answer(500) } }
        let batch = server.manager(4, perHost: 4).batch((0..<300).map { Request<Data>.stub("\($0)") }, failFast: true)
        let codes = await batch.results.map(\.code)
        #expect(codes.count == 300)
        #expect(codes[1] == .unacceptableStatus)
        #expect(codes.enumerated().allSatisfy { $0.offset == 1 || $0.element == .cancelled })
        #expect(server.exchanges.count <= 5)
    }

    @Test(arguments: [true, false]) func noMemberIsPulledAfterOneThatFailsAtOnce(byShutDown: Bool) async {
        let (manager, taken) = (StubServer().manager(), EventLog<Int>())
        if byShutDown { manager.shutDown() }
        let batch = manager.batch(
            (0..<50).lazy.map { number -> Request<Data> in
                taken.record(number)
                return byShutDown ? .stub("\(number)") : .get("nothing://\(number)")
            }, failFast: !byShutDown, keepsResults: false)
        await batch.finished()
        #expect(taken.events == [0])
    }

    @Test func aBatchOfAManagerThatWasShutDownFinishes() async {
        let manager = StubServer().manager()
        manager.shutDown()
        // A stream is not awaited.
        let stream = manager.batch(pulling: AsyncStream<Request<Data>> { _ in })
        #expect(await stream.results.map(\.code) == [.managerShutDown])
        let sequence = manager.batch(AnySequence((0..<3).map { Request<Data>.stub("\($0)") }))
        let codes = await sequence.results.map(\.code)
        #expect(!codes.isEmpty && codes.allSatisfy { $0 == .managerShutDown })
        await manager.batch(AnySequence([Request<Data>]())).finished()
    }

    /// A lazy collection may announce more results than fit into memory.
    @Test(arguments: [(1 << 22) + 1, Int.max]) func tooManyAnnouncedResultsAreNotListed(count: Int) async {
        let server = StubServer.held()
        let batch = server.manager().batch((0..<count).lazy.map { Request<Data>.stub("\($0)") })
        await server.exchanges.wait()
        batch.cancel()
        let results = await batch.results
        #expect(results.count < 10_000 && results.count == batch.currentProgress.totalCount)
        #expect(results.allSatisfy { $0.code == .cancelled })
    }

    @Test func cancellingABatchEndsEveryMemberOnce() async {
        let server = StubServer.held()
        let told = EventLog<(Int, RequestError.Code?)>()
        let batch = server.manager(2).batch((0..<50).map { Request<Data>.stub("\($0)") }) { told.record(($0, $1.code)) }
        await server.exchanges.wait(count: 2)
        batch.cancel()
        batch.cancel()
        #expect(await batch.results.map(\.code) == Array(repeating: .cancelled, count: 50))
        #expect(Set(told.events.map(\.0)).count == told.count)
        #expect(batch.add(.stub("late")) == nil)
    }

    @Test func theBatchEndsAfterItsMembersCallbacks() async {
        let gate = DispatchSemaphore(value: 0)
        let log = EventLog<String>()
        let batch = StubServer().manager().batch([Request<Data>.stub("a"), .stub("b")]) { index, _ in
            if index == 0 { gate.wait() }
            log.record("member")
        }
        let end = Task {
            await batch.finished()
            log.record("batch")
        }
        await log.wait(count: 1)
        #expect(log.events == ["member"])
        gate.signal()
        await end.value
        #expect(log.events == ["member", "member", "batch"])
    }

    @Test func theMembersOfASlowHostKeepNoFreeSlotsFromOthers() async {
        let (server, manager) = StubServer.held().withManager(4, perHost: 2)
        let requests = (0..<1_000).map { Request<Data>.stub("\($0)", host: $0 < 800 ? "slow" : "fast") }
        let batch = manager.batch(requests, keepsResults: false)
        let hosts = await server.exchanges.wait(count: 4).map { $0.request.url.host() }
        #expect(hosts.count { $0 == "fast" } == 2)
        batch.cancel()
        await batch.finished()
    }

    @Test(arguments: [1, 256])
    func aRaisedLimitRaisesWhatARunningBatchReadsAhead(limit: Int) async {
        let server = StubServer.held()
        let pulled = EventLog<Int>()
        let manager = server.manager(limit, perHost: 4_000)
        let batch = manager.batch(
            (0..<5_000).lazy.map { number -> Request<Data> in
                pulled.record(number)
                return .stub("\(number)")
            }, keepsResults: false)
        await pulled.wait(count: 1_024)
        await server.exchanges.wait(count: limit)
        // Gives the batch time to pull more requests. The batch must stop at its window.
        for _ in 0..<1_000 { await Task.yield() }
        #expect(pulled.count <= 1_026)
        manager.maxConcurrentOperationCount = 4_000
        await server.exchanges.wait(count: 4_000)
        batch.cancel()
        await batch.finished()
    }

    @Test func byteProgressNeverRunsBackwards() async {
        let (server, manager) = StubServer.held().withManager()
        let batch = manager.batch([Request<Data>.stub("a"), .stub("b")])
        let seen = Task {
            var seen: [BatchProgress] = []
            for await progress in batch.progress { seen.append(progress) }
            return seen
        }
        let exchanges = await server.exchanges.wait(count: 2)
        for exchange in exchanges { exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 100)) }
        exchanges[0].send(Data(count: 60))
        // The body starts again. The progress grows once the new body exceeds the bytes received before.
        exchanges[0].respond(ResponseHead(statusCode: 200, expectedBytes: 100))
        exchanges[0].send(Data(count: 30))
        #expect(batch.currentProgress.download.completedBytes == 60)
        #expect(batch.currentProgress.fractionCompleted == 0.3)
        exchanges[0].send(Data(count: 70))
        exchanges[0].finish()
        exchanges[1].send(Data(count: 100))
        exchanges[1].finish()
        await batch.finished()
        let all = await seen.value
        #expect(all.last?.finishedCount == 2)
        #expect(all.last?.totalCount == 2)
        #expect(all.last?.fractionCompleted == 1)
        #expect(all.last?.download.completedBytes == 200)
        #expect(all.last?.download.totalBytes == 200)
        for (earlier, later) in zip(all, all.dropFirst()) {
            #expect(earlier != later)
            #expect(earlier.download.completedBytes <= later.download.completedBytes)
            #expect(earlier.fractionCompleted <= later.fractionCompleted)
        }
    }

    @Test func aBatchNobodyHoldsRunsOnAndIsFreed() async {
        let server = StubServer()
        let check = LeakCheck()
        let told = EventLog<Int>()
        do {
            _ = check.watch(
                server.manager().batch((0..<20).map { Request<Data>.stub("\($0)") }) { index, _ in told.record(index) })
        }
        await told.wait(count: 20)
        await check.expectAllGone()
    }
}

@Suite struct BatchMembersTests {
    private static func echo() -> StubServer {
        StubServer { $0.answer(200, body: Data($0.request.url.path.utf8)) }
    }

    private static func path(_ result: Batch<Data>.Result?) -> String? {
        (try? result?.get().value).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func additionsDoNotShiftResultsOfTheSource() async {
        let told = EventLog<(Int, String?)>()
        let adders = Locked<Batch<Data>?>(nil)
        let batch = Self.echo().manager().batch((0..<5_000).map { Request<Data>.stub("\($0)") }) { index, result in
            told.record((index, Self.path(result)))
            if index % 500 == 0 { adders.withLock { $0 }?.add(.stub("added")) }
        }
        // This addition may precede the first pull from the source.
        batch.add(.stub("added"))
        adders.withLock { $0 = batch }
        let paths = await batch.results.map(Self.path)
        adders.withLock { $0 = nil }
        #expect(Array(paths.prefix(5_000)) == (0..<5_000).map { "/\($0)" })
        #expect(paths.count > 5_000)
        #expect(paths.dropFirst(5_000).allSatisfy { $0 == "/added" })
        #expect(told.events.allSatisfy { $0.1 == "/\($0.0)" })
        #expect(told.count == 5_000)
        #expect(batch.currentProgress.totalCount == paths.count)
    }

    /// Several threads add members while a source of unknown length is pulled.
    ///
    /// The failure of the source changes no index.
    @Test(arguments: [true, false]) func eachAdditionFindsItsOwnResult(sourceFails: Bool) async {
        struct Broken: Error {}
        let (stream, source) = AsyncThrowingStream<Request<Data>, any Error>.makeStream()
        let batch = Self.echo().manager().batch(pulling: stream)
        let found = EventLog<(Batch<Data>.Addition, String)>()
        await withTaskGroup { group in
            for adder in 0..<4 {
                group.addTask {
                    for index in 0..<100 {
                        let name = "added-\(adder)-\(index)"
                        guard let addition = batch.add(.stub(name)) else { return }
                        found.record((addition, "/" + name))
                    }
                }
            }
            group.addTask { for index in 0..<400 { source.yield(.stub("\(index)")) } }
        }
        if sourceFails { source.finish(throwing: Broken()) } else { source.finish() }
        let results = await batch.results
        let sourceCount = sourceFails ? 401 : 400
        #expect(results.prefix(400).map(Self.path) == (0..<400).map { "/\($0)" })
        #expect(results.count == sourceCount + 400)
        #expect((results[400].code == .invalidRequest) == sourceFails)
        if sourceFails { #expect((results[400].failure as? RequestError)?.underlying is Broken) }
        #expect(Set(found.events.map(\.0.number)) == Set(0..<400))
        for (addition, path) in found.events {
            #expect(Self.path(await batch.result(of: addition)) == path)
            #expect(Self.path(results[sourceCount + addition.number]) == path)
        }
    }

    /// Simulates a crawler: each response adds more requests, and the batch ends after the last one.
    @Test func aHandlerOfAnAdditionMayAddMore() async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.path != "/start" else { return }
            exchange.answer(200, body: Data(exchange.request.url.path.utf8))
        }
        let batch = server.manager().batch([Request<Data>.stub("start")], keepsResults: false)
        let start = await server.exchanges.wait()[0]
        let seen = EventLog<String?>()
        @Sendable func visit(_ name: String, depth: Int) {
            batch.add(.stub(name)) { result in
                seen.record(Self.path(result))
                guard depth < 5 else { return }
                for side in ["l", "r"] { visit(name + side, depth: depth + 1) }
            }
        }
        let root = batch.add(.stub("x")) { _ in for side in ["l", "r"] { visit(side, depth: 1) } }
        start.answer(200)
        await batch.finished()
        #expect(seen.count == 62)
        #expect(Set(seen.events).count == 62)
        #expect(await batch.result(of: try #require(root)) == nil)
        #expect(batch.currentProgress.finishedCount == 64)
    }

    @Test func stoppedRequestsHaveResultsAtTheirIndices() async {
        let (server, manager) = StubServer.held().withManager(2)
        let batch = manager.batch((0..<3_000).map { Request<Data>.stub("\($0)") })
        await server.exchanges.wait(count: 2)
        let addition = batch.add(.stub("added"))
        server.exchanges.events.first { $0.request.url.path == "/1" }?.answer(
            200, body: Data("/1".utf8))
        await server.exchanges.wait(count: 3)
        batch.cancel()
        let results = await batch.results
        #expect(results.count == 3_001)
        #expect(results.indices.filter { results[$0].code == nil } == [1])
        if let addition { #expect(await batch.result(of: addition)?.code == .cancelled) }
        #expect(batch.currentProgress.finishedCount == 3_001 && batch.currentProgress.skippedCount >= 1_900)
    }
}

@Suite struct BatchOperationTests {
    @Test func dependentsOfABatchWaitForItsLastMember() async throws {
        let (server, manager) = StubServer.held().withManager()
        let batch = manager.batch([Request<Data>.stub("a"), .stub("b")])
        let log = EventLog<String>()
        let block = BlockOperation { log.record("block") }
        block.addDependency(batch.operation(named: "tiles"))
        OperationQueue().addOperation(block)
        let other = manager.operation(.stub("other"))
        let link = manager.operation(after: batch, other) { results, other in
            Request<Data>.stub("after\(results.count { $0.code == nil })of\(results.count)")
        }
        manager.enqueue(link, other)
        let exchanges = await server.exchanges.wait(count: 3)
        #expect(manager.why(link).contains("a batch (executing)"))
        for exchange in exchanges where exchange.request.url.path != "/a" { exchange.answer(404) }
        #expect(log.events.isEmpty)
        for exchange in exchanges where exchange.request.url.path == "/a" { exchange.answer(200) }
        await log.wait()
        #expect(batch.currentProgress.finishedCount == 2 && batch.currentProgress.failedCount == 1)
        // The link fails because `other` failed with a 404. A failed member of the batch would not fail the link.
        #expect(await link.resultCode() == .dependencyFailed)

        let next = manager.operation(after: batch) { Request<Data>.stub("next\($0.count { $0.code == nil })") }
        manager.enqueue(next)
        let last = await server.exchanges.wait(count: 4)[3]
        #expect(last.request.url.path == "/next1")
        last.answer(200)
        try await next.response()
    }

    @Test func cancellingTheOperationOfABatchCancelsTheBatch() async {
        let server = StubServer.held()
        let batch = server.manager().batch((0..<3).map { Request<Data>.stub("\($0)") })
        let operation = batch.operation()
        await server.exchanges.wait(count: 3)
        operation.cancel()
        #expect(await batch.results.map(\.code) == [.cancelled, .cancelled, .cancelled])
        await #expect(throws: RequestError.self) { try await operation.value }
        #expect(operation.error?.code == .cancelled)
    }

    @Test func aBatchIsAMemberOfAGroup() async throws {
        let (server, manager) = StubServer().withManager(1)
        let group = manager.operation(named: "sync") { group in
            let batch = manager.batch((0..<5).map { Request<Data>.stub("\($0)") })
            group.enqueue(batch.operation())
            return batch
        }
        manager.enqueue(group)
        let batch = try await group.value
        #expect(batch.currentProgress.finishedCount == 5 && server.exchanges.count == 5)
    }
}

@Suite struct BatchProgressTests {
    private func post(_ name: String, _ byteCount: Int) -> Request<Data> {
        .post("http://stub/\(name)").body(Data(count: byteCount), contentType: "text/plain")
    }

    private func progress(sent: Int64, of toSend: Int64?, received: Int64 = 0, of total: Int64? = nil)
        -> TransferProgress
    {
        TransferProgress(
            upload: ByteProgress(completedBytes: sent, totalBytes: toSend),
            download: ByteProgress(completedBytes: received, totalBytes: total))
    }

    @Test func progressCountsBothDirectionsAndKnownTotals() async {
        let server = StubServer.held()
        let batch = server.manager().batch([post("a", 100), post("b", 300), post("c", 500)])
        let exchanges = await server.exchanges.wait(count: 3).sorted { $0.request.url.path < $1.request.url.path }
        #expect(batch.currentProgress.upload.totalBytes == 900)
        exchanges[0].sent(totalBytes: 50)
        exchanges[1].sent(totalBytes: 300)
        #expect(batch.currentProgress.upload.completedBytes == 350)
        #expect(batch.currentProgress.upload.totalBytes == 900)
        exchanges[1].respond(ResponseHead(statusCode: 200, expectedBytes: 1_000))
        exchanges[1].send(Data(count: 10))
        // This response announces no length.
        exchanges[2].respond(ResponseHead(statusCode: 200))
        exchanges[2].send(Data(count: 7))
        #expect(batch.currentProgress.download.completedBytes == 17)
        #expect(batch.currentProgress.download.totalBytes == 1_007)
        exchanges[1].finish(RequestError(.connectionLost, "cut"))
        exchanges[2].finish()
        exchanges[0].sent(totalBytes: 100)
        exchanges[0].answer(200)
        await batch.finished()
        #expect(batch.currentProgress.upload.completedBytes == 400)
        #expect(batch.currentProgress.upload.totalBytes == 400)
        #expect(batch.currentProgress.download.completedBytes == 17)
        // The total of a finished request is the number of bytes that it received.
        #expect(batch.currentProgress.download.totalBytes == 17)
    }

    @Test func sentBytesMoveTheFraction() {
        var meter = BatchMeter()
        meter.expect(2)
        var (first, second) = (BatchMeter.Member(), BatchMeter.Member())
        let now = ContinuousClock.now
        meter.move(&first, progress(sent: 500, of: 1_000, received: 0, of: 1_000), at: now)
        #expect(meter.progress.fractionCompleted == 0.125)
        // A small body that was sent is not yet the complete request.
        meter.move(&second, progress(sent: 10, of: 10), at: now)
        #expect(meter.progress.fractionCompleted < 0.126)
        meter.move(&second, progress(sent: 10, of: 10, received: 10, of: 10), at: now)
        #expect(abs(meter.progress.fractionCompleted - 0.625) < 1e-9)
        meter.finish(&second, isSuccess: true)
        #expect(abs(meter.progress.fractionCompleted - 0.625) < 1e-9)
    }

    @Test func lengthsOfAnySizeAreCounted() {
        var meter = BatchMeter()
        var members = [BatchMeter.Member](repeating: BatchMeter.Member(), count: 3)
        for index in 0..<3 {
            meter.move(
                &members[index], progress(sent: 0, of: nil, received: 1, of: .max), at: ContinuousClock.now)
        }
        for index in 0..<3 { meter.finish(&members[index], isSuccess: true) }
        #expect(meter.progress.download.completedBytes == 3)
        #expect(meter.progress.download.totalBytes == 3)
    }

    @Test func theRateIsThatOfAllMembers() {
        var meter = BatchMeter()
        let now = ContinuousClock.now
        var (first, second) = (BatchMeter.Member(), BatchMeter.Member())
        meter.move(&first, progress(sent: 0, of: nil, received: 100), at: now)
        meter.move(&second, progress(sent: 0, of: nil, received: 300), at: now + .seconds(1))
        #expect(meter.progress.download.bytesPerSecond == 300)
        #expect(meter.progress.upload.bytesPerSecond == nil)
    }

    @Test func anIntervalIsKeptToOnTheClockOfTheManager() async {
        let clock = VirtualClock()
        let batch = StubServer().manager(clock: clock).batch([Request<Data>.stub("a")])
        let progress = batch.progress(every: .seconds(1))
        #expect(progress.interval == .seconds(1))
        #expect(progress.source.clock === clock)
        await batch.finished()
        var last: BatchProgress?
        for await value in progress { last = value }
        #expect(last == batch.currentProgress)
    }
}
