import Convoy
import Foundation
import Testing

@Suite struct RequestPrioritizationTests {
    @Test(arguments: [RequestPrioritization.fifo, .lifo])
    func theOrderWithinAPriorityIsAsSet(_ prioritization: RequestPrioritization) async {
        let server = StubServer()
        let manager = server.manager(1) { $0.prioritization = prioritization }
        manager.isSuspended = true
        for index in 0..<4 { manager.enqueue(.stub("\(index)", host: index == 2 ? "other" : "stub")) }
        manager.enqueue(Request.stub("high").priority(.high))
        manager.enqueue(Request.stub("low").priority(.low))
        manager.isSuspended = false
        await manager.drain()
        let order = prioritization == .lifo ? ["/3", "/2", "/1", "/0"] : ["/0", "/1", "/2", "/3"]
        #expect(server.paths == ["/high"] + order + ["/low"])
    }

    /// The newest request starts first, but retries precede new requests.
    @Test func aRetryGoesBeforeTheNewest() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = server.manager(1, clock: clock) { configuration in
            (configuration.prioritization, configuration.retries) = (.lifo, .standard)
        }
        let first = manager.enqueue(.stub("first"))
        await server.exchanges.wait()[0].answer(503)
        await clock.armed.wait()
        for name in ["a", "b", "c"] { manager.enqueue(.stub(name)) }
        // The slot must belong to an operation that has begun, so the test waits for its exchange.
        await server.exchanges.wait(count: 2)
        clock.advanceToNext()
        // The scheduler gives this reason after it has received the retry.
        await look { manager.why(first).hasPrefix("waits for a slot: 1 running") }
        for count in 2...5 { await server.exchanges.wait(count: count)[count - 1].answer(200) }
        #expect(server.paths == ["/first", "/a", "/first", "/c", "/b"])
        await manager.drain()
    }
}
