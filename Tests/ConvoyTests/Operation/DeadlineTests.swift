import Convoy
import Foundation
import Testing

/// Tests deadlines in virtual time, and messages that say what used the time.
///
/// `SlownessFaultTests` have real servers.
@Suite struct DeadlineTests {
    private let server = StubServer.held()
    private let clock = VirtualClock()

    /// Another request occupies the only slot, or is a dependency.
    @Test(arguments: [false, true]) func itIncludesTheTimeOfWaiting(isDependent: Bool) async {
        let manager = server.manager(isDependent ? 16 : 1, clock: clock)
        let first = manager.operation(Request.stub("first"))
        let second = manager.operation(Request.stub("second").deadline(.seconds(5)))
        if isDependent { second.addDependency(first) }
        manager.enqueue(first, second)
        await server.exchanges.wait()
        clock.advance(by: .seconds(5))
        let error = await second.failure()
        #expect(error?.code == .deadlineExceeded)
        let reason = isDependent ? "waits for: first" : "waits for a slot"
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
        #expect(server.exchanges.count == 1)
        await manager.cancelAndDrain()
    }

    @Test func itEndsATransferAndSaysSo() async {
        let manager = server.manager(clock: clock)
        let operation = manager.enqueue(Request.stub("a").deadline(.seconds(5)))
        let exchange = await server.exchanges.wait()[0]
        clock.advance(by: .seconds(5))
        let error = await operation.failure()
        #expect(error?.code == .deadlineExceeded)
        #expect(
            error?.message == "its deadline has passed: it is executing (spent: 0 ms queued, 5.0 s executing)",
            "\(error?.message ?? "")")
        #expect(error?.attempts.map(\.failure) == [.deadlineExceeded])
        await manager.drain()
        await look { exchange.isCancelled }
    }

    /// The wait is that of the policy, or the server asks for it.
    @Test(arguments: [nil, "30"]) func aRetryThatWouldComeTooLateIsNotWaitedFor(retryAfter: String?) async {
        let server = StubServer { exchange in
            exchange.answer(503, headerFields: retryAfter.map { ["Retry-After": $0] } ?? [:])
        }
        let manager = server.manager(clock: clock) { configuration in
            configuration.retries = RetryPolicy(baseDelay: .seconds(10))
            configuration.jitter = { retryAfter == nil ? 0.6 : 0 }
        }
        let error = await manager.enqueue(Request.stub("a").deadline(.seconds(5))).failure()
        #expect(error?.code == .unacceptableStatus)
        if retryAfter != nil {
            let words = "another attempt, in 30.0 s, as Retry-After of its 503 asked, would be after its deadline"
            #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        }
        #expect(clock.elapsed == .zero)
        #expect(server.exchanges.count == 1)
    }

    @Test func itIncludesBackOffAndRedirects() async {
        let manager = server.manager(clock: clock) { configuration in
            configuration.retries = RetryPolicy(baseDelay: .seconds(4))
            configuration.jitter = { 0.5 }
        }
        let operation = manager.enqueue(Request.stub("a").deadline(.seconds(5)))
        await server.exchanges.wait()[0].answer(302, headerFields: ["Location": "/b"])
        let second = await server.exchanges.wait(count: 2)[1]
        clock.advance(by: .seconds(1))
        second.answer(503)
        await clock.armed.wait(count: 2)
        clock.advance(by: .seconds(2))
        let third = await server.exchanges.wait(count: 3)[2]
        clock.advance(by: .seconds(2))
        let error = await operation.failure()
        #expect(error?.code == .deadlineExceeded)
        #expect(error?.attempts.map(\.statusCode) == [302, 503, nil])
        let spent = "0 ms queued, 1.0 s in 2 attempts before, 2.0 s between attempts, 2.0 s in this one"
        #expect(error?.message.contains("(spent: \(spent))") == true, "\(error?.message ?? "")")
        #expect(
            error?.attempts.dropLast().map(\.description) == [
                "1: GET http://stub/a (302 after 0 ms), then a redirect to http://stub/b",
                "2: GET http://stub/b (503 after 1.0 s), then a retry after 2.0 s",
            ])
        await manager.drain()
        await look { third.isCancelled }
    }

    @Test func aHostOnHoldUntilAfterItIsNotWaitedFor() async {
        let server = StubServer { $0.answer(503, headerFields: ["Retry-After": "30"]) }
        let manager = server.manager(clock: clock, configure: { $0.retries = .wholeHost })
        manager.enqueue(Request.stub("a"))
        await clock.armed.wait(count: 2)
        let late = manager.enqueue(Request.stub("b").deadline(.seconds(29)))
        let error = await late.failure()
        #expect(error?.code == .deadlineExceeded)
        #expect(error?.attempts.isEmpty == true)
        let asked = "GET http://stub/a was answered 503 with Retry-After"
        #expect(error?.message == "not sent: http://stub:80 is on hold until after its deadline; \(asked)")
        #expect(clock.elapsed == .zero)
        await manager.cancelAndDrain()
    }

    @Test func aLinkInheritsItWhenAsked() async {
        let manager = server.manager(clock: clock)
        let first = manager.operation(Request.stub("first").deadline(.seconds(5)))
        let inheriting = manager.operation(after: first) { _ in Request.stub("second").inheritingDeadline() }
        let free = manager.operation(after: first) { _ in Request.stub("third") }
        // A deadline of the link's own begins when its request has been built.
        let own = manager.operation(after: first) { _ in Request.stub("fourth").deadline(.seconds(5)) }
        manager.enqueue(first, inheriting, free, own)
        let exchange = await server.exchanges.wait()[0]
        clock.advance(by: .seconds(3))
        exchange.answer(200)
        await server.exchanges.wait(count: 4)
        clock.advance(by: .seconds(2))
        #expect(await inheriting.failure()?.code == .deadlineExceeded)
        #expect(own.result == nil)
        clock.advance(by: .seconds(3))
        #expect(await own.failure()?.code == .deadlineExceeded)
        #expect(free.result == nil)
        await manager.cancelAndDrain()
    }

    @Test func aMetDeadlineLeavesNoTimer() async throws {
        let manager = StubServer().manager(clock: clock)
        let leaks = LeakCheck()
        _ = try await leaks.watch(manager.enqueue(Request.stub("a").deadline(.seconds(5)))).response()
        await manager.drain()
        #expect(!clock.advanceToNext())
        await leaks.expectAllGone()
    }
}
