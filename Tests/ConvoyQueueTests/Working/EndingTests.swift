import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests how drains, stops and cancellations end.
@Suite struct QueueEndingTests {
    let place: StorePlace
    let manager = RequestManager(configuration: .init(maxConcurrentPerHost: 16))

    init() throws { place = try StorePlace() }

    private func makeQueue(_ change: (inout DurableQueue.Configuration) -> Void = { _ in }) throws -> DurableQueue {
        try place.makeQueue(manager, change)
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

    @Test func cancellingAJobCancelsItsRequest() async throws {
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

    @Test func stoppingReleasesJobsForAnotherQueue() async throws {
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
        // After a restart the queue processes new jobs.
        try await queue.add(server.job("6"))
        #expect(try await queue.states()["6"] == .done)
        await queue.close()
        await other.close()
    }

    @Test func aQueueWhoseManagerIsShutDownSendsNothing() async throws {
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
}
