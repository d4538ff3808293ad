import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCache

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Tests a single attempt over a transport that the test controls.
@Suite(.timeLimit(.minutes(2)))
struct TransferTests {
    /// Records the calls that it receives.
    private final class FakeTask: TransferTask {
        let calls = Locked<[String]>([])

        func resume() { calls.withLock { $0.append("resume") } }
        func suspend() { calls.withLock { $0.append("suspend") } }
        func cancel() { calls.withLock { $0.append("cancel") } }
        func makeSessionTask() -> URLSessionTask { URLSession.shared.dataTask(with: URL(filePath: "/")) }
    }

    private final class FakeTransport: Sendable {
        let tasks = Locked<[FakeTask]>([])
        let clients = Locked<[any TransportClient]>([])
        /// Runs while a task is created.
        let whenMade = Locked<@Sendable () -> Void>({})

        func makeTask(client: any TransportClient) -> FakeTask {
            let task = FakeTask()
            clients.withLock { $0.append(client) }
            tasks.withLock { $0.append(task) }
            whenMade.withLock { $0 }()
            return task
        }
    }

    private final class FakeClient: CacheClient {
        let transport = FakeTransport()
        let heads = Locked<[ResponseHead]>([])
        let ends = Locked<[RequestError?]>([])
        let status = Locked<CacheStatus?>(nil)
        let body = Locked(Data())
        let isFull = Locked(false)
        let pausesInPlace: Bool
        /// The work of the executor, which a client that cannot pause performs when the test says so.
        let delayed = Locked<[@Sendable () -> Void]>([])

        init(pausesInPlace: Bool = true) { self.pausesInPlace = pausesInPlace }

        func didReceive(_ head: ResponseHead) { heads.withLock { $0.append(head) } }
        func didReceive(_ data: Data) -> Bool {
            body.withLock { $0 += data }
            return isFull.withLock { isFull in
                defer { isFull = false }
                return !isFull
            }
        }
        func didPause() {}
        func didSend(totalBytes _: Int64) {}
        func didCollect(_ metrics: TransferMetrics) { status.withLock { $0 = metrics.cache } }
        func didFinish(_ error: RequestError?) { ends.withLock { $0.append(error) } }

        func usesNetwork() {}
        func keepCookies(of _: ResponseHead) {}
        func onExecutor(_ work: @escaping @Sendable () -> Void) {
            if pausesInPlace { work() } else { delayed.withLock { $0.append(work) } }
        }
        func onTaskControl(_ work: @escaping @Sendable () -> Void) { work() }
        func refresh(_: PreparedRequest, _: CacheOptions, _: @escaping @Sendable () -> Void) {}
        func makeTransfer(for _: PreparedRequest, client: any TransportClient) -> any TransferTask {
            transport.makeTask(client: client)
        }
    }

    private let client = FakeClient()
    private var transport: FakeTransport { client.transport }
    private var cache = HTTPCache.memory(capacity: 1 << 20)
    private let clock = VirtualClock()

    init() {}

    private init(cache: HTTPCache) { self.cache = cache }

    private func makeRequest() throws -> PreparedRequest {
        try Request<Data>.get("http://host/a").core.prepared(RequestDefaults())
    }

    /// Without a slot, the response was found before the operation waited for one.
    private func start(hasSlot: Bool = true, afterLookingUp: () -> Void = {}) throws -> any TransferTask {
        let query = CacheQuery(try makeRequest(), nil, clock: clock)
        let found = hasSlot ? nil : cache.look(query) { _ in }
        afterLookingUp()
        let transfer = cache.makeTransfer(for: query, found, client: client)
        transfer.resume()
        return transfer
    }

    /// Delivers a response, so that the cache stores it.
    ///
    /// With an error, the response ends after the bytes of `body`.
    private func store(
        _ fields: HeaderFields, _ body: String = "body", of length: Int64? = nil, _ error: RequestError? = nil
    ) throws {
        _ = try start()
        let task = try network
        let expected = length ?? Int64(body.utf8.count)
        let url = try makeRequest().url
        task.didReceive(ResponseHead(statusCode: 200, headerFields: fields, url: url, expectedBytes: expected))
        _ = task.didReceive(Data(body.utf8))
        task.didFinish(error)
        client.heads.withLock { $0 = [] }
        client.body.withLock { $0 = Data() }
    }

    private var network: any TransportClient {
        get throws { try #require(transport.clients.withLock { $0.last }) }
    }

    private func respond(_ statusCode: Int, _ fields: HeaderFields = [:]) throws {
        try network.didReceive(ResponseHead(statusCode: statusCode, headerFields: fields, url: makeRequest().url))
    }

    private static let cut = RequestError(.connectionLost, "cut")
    private static let part: HeaderFields = ["Cache-Control": "max-age=60", "ETag": "\"a\""]
    private static let rest: HeaderFields = ["ETag": "\"a\"", "Content-Range": "bytes 4-9/10"]

    @Test func requestThatIsSentAgainStaysSuspended() throws {
        try store(["Cache-Control": "max-age=1", "ETag": "\"a\""])
        clock.advance(by: .seconds(5))
        let transfer = try start()
        transport.whenMade.withLock { $0 = { transfer.suspend() } }
        // The 304 confirms a response other than the stored one.
        try respond(304, ["ETag": "\"b\""])
        try network.didFinish(nil)
        let again = try #require(transport.tasks.withLock { $0.last })
        #expect(transport.tasks.withLock { $0.count } == 3)
        #expect(again.calls.withLock { $0 }.isEmpty)
        transfer.resume()
        #expect(again.calls.withLock { $0 } == ["resume"])
    }

    /// A transport's thread must not wait for a disk, so the cache reads the stored beginning earlier.
    @Test func storedBeginningIsReadBeforeTheTransportResponds() throws {
        try store(Self.part, "0123", of: 10, Self.cut)
        _ = try start()
        cache.removeAll()
        client.isFull.withLock { $0 = true }
        try respond(206, Self.rest)
        let network = try network
        // The client is full, so the transport must pause after the first chunk.
        #expect(!network.didReceive(Data("456".utf8)))
        #expect(network.didReceive(Data("789".utf8)))
        network.didFinish(nil)
        #expect(client.body.withLock { $0 } == Data("0123456789".utf8))
        #expect(client.heads.withLock { $0.map(\.statusCode) } == [200])
    }

    /// The client gets the response, or nothing; that the connection is then cut means nothing.
    @Test(arguments: [("no-store", false, [200]), ("no-store", true, []), ("no-store, no-cache", false, [200])])
    func confirmationThatForbidsStoringRemovesWithoutAReaderToo(
        _ control: String, _ isCancelled: Bool, _ statusCodes: [Int]
    ) throws {
        try store(["Cache-Control": "max-age=1, must-revalidate", "ETag": "\"a\""])
        clock.advance(by: .seconds(5))
        let transfer = try start()
        try respond(304, ["ETag": "\"a\"", "Cache-Control": control])
        if isCancelled { transfer.cancel() }
        try network.didFinish(Self.cut)
        #expect(client.heads.withLock { $0.map(\.statusCode) } == statusCodes)
        #expect(cache.statistics.entryCount == 0)
    }

    @Test func aRefusedRangeIsRequestedAsTheCompleteFile() throws {
        try store(Self.part, "0123", of: 10, Self.cut)
        _ = try start()
        try respond(416)
        try network.didFinish(nil)
        #expect(client.heads.withLock { $0.isEmpty })
        #expect(transport.tasks.withLock { $0.count } == 3)
    }

    /// Starts an equal request; returns whether it waits.
    private func isShared() throws -> Bool {
        let count = transport.tasks.withLock { $0.count }
        _ = try start()
        return transport.tasks.withLock { $0.count } == count
    }

    @Test func sharingThatHasEndedDoesNotBeginAgain() throws {
        let transfer = try start()
        #expect(try isShared())
        try respond(200, ["Cache-Control": "no-store"])
        transfer.suspend()
        transfer.resume()
        #expect(try !isShared())
    }

    @Test func transferThatIsDroppedIsReplaced() throws {
        _ = try start()
        #expect(try isShared())
        // The last reference is released outside the lock.
        _ = transport.clients.withLock { clients in
            defer { clients = [] }
            return clients
        }
        #expect(transport.tasks.withLock { $0.count } == 2)
    }

    /// The first of two waiting requests neither takes over nor stays without a transfer after it was resumed.
    @Test(arguments: [true, false]) func requestThatStopsWaitingDoesNotTakeOver(_ isCancelled: Bool) throws {
        let first = try start()
        let (second, third) = (try start(), try start())
        #expect(transport.tasks.withLock { $0.count } == 1)
        if isCancelled { second.cancel() } else { second.suspend() }
        #expect(client.ends.withLock { $0.map(\.?.code) } == (isCancelled ? [.cancelled] : []))
        first.suspend()
        #expect(transport.tasks.withLock { $0.count } == 2)
        third.suspend()
        second.resume()
        #expect(transport.tasks.withLock { $0.count } == (isCancelled ? 2 : 3))
    }

    @Test func aRemovedResponseUsesNoNetworkWithoutASlot() throws {
        try store(["Cache-Control": "max-age=60"])
        client.ends.withLock { $0 = [] }
        _ = try start(hasSlot: false, afterLookingUp: cache.removeAll)
        #expect(transport.tasks.withLock { $0.count } == 1)
        let ends = client.ends.withLock { $0 }
        #expect(ends.count == 1)
        #expect(ends.first??.underlying is StoredAnswerIsGone)
    }

    /// A download adds a field to its request after the lookup.
    @Test func aChangedRequestUsesNoNetworkWithoutASlot() throws {
        try store(["Cache-Control": "max-age=60", "Vary": "Accept-Encoding"])
        client.ends.withLock { $0 = [] }
        let query = CacheQuery(try makeRequest(), nil, clock: clock)
        let found = try #require(cache.look(query) { _ in })
        var changed = try makeRequest()
        changed.headerFields["Accept-Encoding"] = "identity"
        cache.makeTransfer(for: CacheQuery(changed, nil, clock: clock), found, client: client).resume()
        #expect(transport.tasks.withLock { $0.count } == 1)
        let ends = client.ends.withLock { $0 }
        #expect(ends.count == 1)
        #expect(ends.first??.underlying is StoredAnswerIsGone)
    }

    /// A transfer is started where other starts wait for it.
    @Test func aFileIsOpenedOnAThreadThatMayWait() async throws {
        let world = try CacheWorld(.disk) { _, _ in
            .generated(byteCount: 300_000, headerFields: [("Cache-Control", "max-age=60")])
        }
        _ = try await world.get()
        try #require(world.cache.statistics.entryCount == 1)
        let query = CacheQuery(try world.request().core.prepared(RequestDefaults()), nil, clock: world.clock)
        let found = StoredExchange(world.cache.question(query, world.cache.store.digest), in: world.cache.store)
        let client = FakeClient(pausesInPlace: false)
        world.cache.makeTransfer(for: query, found, client: client).resume()
        #expect(client.heads.withLock { $0.isEmpty })
        for work in client.delayed.withLock({ $0 }) { work() }
        #expect(client.body.withLock { $0.count } == 300_000)
    }

    @Test func responseThatDoesNotFitIsNotReportedAsStored() throws {
        try store(["Cache-Control": "max-age=60"])
        #expect(client.status.withLock { $0?.isStored } == true)
        let small = Self(cache: HTTPCache.memory(capacity: 600))
        try small.store(["Cache-Control": "max-age=60", "X": String(repeating: "x", count: 200)])
        #expect(small.client.status.withLock { $0?.isStored } == false)
        #expect(small.cache.statistics.stores == 0)
    }
}
