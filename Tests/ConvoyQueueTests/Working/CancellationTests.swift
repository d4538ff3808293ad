import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests jobs that are cancelled by another process while they run.
@Suite struct QueueCancellationTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

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
        await other.close()
        await queue.close()
    }

    /// The queue learns of the cancellation only when it settles the job, because this store sends no notifications.
    @Test func aJobThatIsCancelledBeforeItsSettlementIsNotReported() async throws {
        let server = try KeyedServer()
        let store = SilentStore(place)
        let manager = RequestManager(configuration: .init(clock: place.clock))
        let told = Told<String>()
        var configuration = DurableQueue.Configuration()
        configuration.onOutcome = { job, verdict, attempt in
            told.tell("\(job.id) \(verdict == .done) \(attempt?.statusCode ?? 0)")
        }
        let queue = DurableQueue(store: store, manager: manager, configuration: configuration)
        _ = try await queue.add(contentsOf: [server.job("a"), server.job("b") { $0.priority = .low }])
        let states = try await queue.states(otherwise: { job, _ in
            if job.id == "a" { _ = try? await store.cancel(JobSelection(ids: ["a"])) }
            return .done
        })
        #expect(states == ["a": .cancelled, "b": .done])
        #expect(told.all == ["b true 200"])
        await queue.close()
    }

    @Test func anOutcomeIsReportedWhenItIsStored() async throws {
        let server = try KeyedServer()
        let store = SilentStore(place)
        let manager = RequestManager(configuration: .init(clock: place.clock))
        let states = Told<JobState?>()
        var configuration = DurableQueue.Configuration()
        configuration.onOutcome = { [memory = place.memory] job, _, _ in
            states.tell(memory.state.withLock { $0.entries[job.id]?.record.state })
        }
        let queue = DurableQueue(store: store, manager: manager, configuration: configuration)
        try await queue.add(server.job("a"))
        #expect(try await queue.states() == ["a": .done])
        #expect(states.all == [.done])
        await queue.close()
    }
}

/// A store in memory that sends no notifications.
private final class SilentStore: Store {
    private let store: MemoryStore
    var owner: String { store.owner }
    let pollInterval: Duration? = nil

    init(_ place: StorePlace) { store = MemoryStore(place.memory, clock: place.clock) }

    func changes() -> AsyncStream<Void> { AsyncStream { $0.finish() } }

    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] { try await store.add(jobs) }
    func exchange(_ settlements: [Settlement], claiming request: ClaimRequest?) async throws(QueueError) -> Exchange {
        try await store.exchange(settlements, claiming: request)
    }
    func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try await store.renew(claims, for: lease)
    }
    func release() async throws(QueueError) { try await store.release() }
    func cancel(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.cancel(selection) }
    func retry(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.retry(selection) }
    func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await store.acknowledge(selection)
    }
    func delete(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.delete(selection) }
    func purge(olderThan age: Duration) async throws(QueueError) -> Int { try await store.purge(olderThan: age) }
    func job(_ id: String) async throws(QueueError) -> JobRecord? { try await store.job(id) }
    func jobs(
        _ selection: JobSelection, after position: Int64, limit: Int
    ) async throws(QueueError) -> [JobRecord] {
        try await store.jobs(selection, after: position, limit: limit)
    }
    func blockers(of id: String) async throws(QueueError) -> [JobBlocker] { try await store.blockers(of: id) }
    func status() async throws(QueueError) -> QueueStatus { try await store.status() }
    func close() async { await store.close() }
}
