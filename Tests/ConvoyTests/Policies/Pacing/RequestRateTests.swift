import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RequestRateTests {
    private let start = ContinuousClock.now

    /// The start times of `count` requests, in milliseconds, if each starts as soon as the rate allows.
    private func moments(_ rate: RequestRate, count: Int) -> [Int] {
        var (pacer, now) = (RequestPacer(rate), start)
        return (0..<count).map { _ in
            now = pacer.due(after: now) ?? now
            pacer.take(now: now)
            return Int((start.duration(to: now) / .milliseconds(1)).rounded())
        }
    }

    @Test func requestsAreEvenlySpacedAfterTheBurst() {
        #expect(moments(.perSecond(4), count: 4) == [0, 250, 500, 750])
        #expect(moments(RequestRate(4, burst: 3), count: 5) == [0, 0, 0, 250, 500])
        #expect(moments(RequestRate(2, per: .seconds(60)), count: 3) == [0, 30_000, 60_000])
    }

    /// No value traps, and no value causes an endless wait.
    @Test func valuesOutOfRangeAreBroughtIntoIt() {
        #expect(moments(RequestRate(0, per: .seconds(1), burst: 0), count: 2) == [0, 1_000])
        #expect(moments(RequestRate(.max, per: .seconds(-1), burst: .max), count: 3) == [0, 0, 0])
        #expect(moments(RequestRate(.min, per: .seconds(Int64.max), burst: .min), count: 2) == [0, 86_400_000])
    }

    /// After a pause, at most the burst starts at once.
    @Test func aPauseSavesNoMoreThanTheBurst() {
        var pacer = RequestPacer(RequestRate(10, burst: 2))
        let later = start + .seconds(3_600)
        for _ in 0..<2 {
            #expect(pacer.due(after: later) == nil)
            pacer.take(now: later)
        }
        #expect(pacer.due(after: later) == later + .milliseconds(100))
        pacer.giveBack(takenAt: later)
        #expect(pacer.due(after: later) == nil)
    }

    @Test func aHostsRateDoesNotDelayOtherHosts() async {
        let (server, clock) = (StubServer(), VirtualClock())
        let manager = server.manager(clock: clock) { $0.requestRatePerHost = .perSecond(2) }
        for index in 0..<3 { manager.enqueue(.stub("a\(index)", host: "a")) }
        for index in 0..<2 { manager.enqueue(.stub("b\(index)", host: "b")) }
        for (count, timers) in [(2, 2), (4, 3), (5, 3)] {
            await server.exchanges.wait(count: count)
            await clock.armed.wait(count: timers)
            #expect(server.exchanges.count == count)
            if count < 5 { clock.advance(by: .milliseconds(500)) }
        }
        // Requests that start at the same moment may be sent in any order.
        let paths = server.paths
        #expect(paths.prefix(2).sorted() == ["/a0", "/b0"])
        #expect(paths.dropFirst(2).prefix(2).sorted() == ["/a1", "/b1"] && paths.dropFirst(4) == ["/a2"])
        #expect(clock.elapsed == .seconds(1))
        await manager.drain()
    }

    @Test func allHostsTogetherGetSoManyASecondByPriority() async {
        let (server, clock) = (StubServer(), VirtualClock())
        let manager = server.manager(clock: clock) { $0.requestRate = .perSecond(10) }
        for index in 0..<3 { manager.enqueue(.stub("\(index)", host: "\(index)")) }
        manager.enqueue(Request.stub("first", host: "z").priority(.high))
        for count in 1...4 {
            await server.exchanges.wait(count: count)
            await clock.armed.wait(count: min(count, 3))
            #expect(server.exchanges.count == count)
            if count < 4 { clock.advance(by: .milliseconds(100)) }
        }
        #expect(server.paths == ["/0", "/first", "/1", "/2"])
        await manager.drain()
    }

    @Test func whyNamesTheRate() async {
        let (server, clock) = (StubServer(), VirtualClock())
        let manager = server.manager(clock: clock) { $0.requestRatePerHost = RequestRate(6, per: .seconds(60)) }
        manager.enqueue(.stub("first"))
        let second = manager.enqueue(.stub("second"))
        clock.advance(by: .seconds(4))
        #expect(
            manager.why(second)
                == "waits for http://stub:80: it is sent at most 6 requests in \(Duration.seconds(60).words), "
                + "the next in \(Duration.seconds(6).words)")
        let all = server.manager(clock: clock) { $0.requestRate = .perSecond(1) }
        all.enqueue(.stub("first"))
        let other = all.enqueue(.stub("second", host: "other"))
        #expect(all.why(other).hasPrefix("waits for its turn: the manager sends at most 1 request in"))
        for manager in [manager, all] {
            await manager.cancelAndDrain()
        }
    }

    @Test func retriesCountAndRequestsWithInterceptorsCountOnce() async {
        let (server, clock) = (StubServer { $0.answer($0.request.url.path == "/fails" ? 503 : 200) }, VirtualClock())
        let manager = server.manager(clock: clock) { configuration in
            configuration.requestRate = .perSecond(1)
            configuration.interceptors = [Interceptor()]
            configuration.retries = RetryPolicy(maxRetries: 1, baseDelay: .zero)
        }
        var elapsed: [Duration] = []
        for (index, name) in ["fails", "a", "b"].enumerated() {
            let operation = manager.enqueue(.stub(name))
            await clock.armed.wait(count: index + 1)
            clock.advanceToNext()
            _ = try? await operation.response()
            elapsed.append(clock.elapsed)
        }
        #expect(elapsed == [.seconds(1), .seconds(2), .seconds(3)])
        #expect(server.paths == ["/fails", "/fails", "/a", "/b"])
    }

    /// The request fails at once, like a request whose retry would start after its deadline.
    @Test(arguments: [true, false])
    func aDeadlineBeforeTheNextTokenEndsARequestAtOnceAndNamesTheRate(isOfAHost: Bool) async throws {
        let (server, clock) = (StubServer(), VirtualClock())
        let rate = RequestRate(1, per: .seconds(60))
        let manager = server.manager(clock: clock) {
            if isOfAHost { $0.requestRatePerHost = rate } else { $0.requestRate = rate }
        }
        try await manager.send(.stub("first"))
        let late = manager.enqueue(Request.stub("late").deadline(.seconds(59)))
        await look { late.result != nil }
        #expect(late.error?.code == .deadlineExceeded)
        let words = "at most 1 request in \(Duration.seconds(60).words)"
        #expect(
            late.error?.message.contains("\(isOfAHost ? "http://stub:80 is sent" : "its manager sends") \(words)")
                == true)
        let timely = manager.enqueue(Request.stub("timely").deadline(.seconds(61)))
        await clock.armed.wait(count: 2)
        clock.advance(by: .seconds(60))
        _ = try await timely.response()
        #expect(server.paths == ["/first", "/timely"])
        await manager.cancelAndDrain()
    }

    /// The early requests return their tokens after new tokens have replaced them.
    @Test func tokensReturnedLateDoNotIncreaseTheBurst() async throws {
        let (server, clock, gate) = (StubServer(), VirtualClock(), DispatchSemaphore(value: 0))
        let manager = server.manager(clock: clock) { $0.requestRate = RequestRate(1, burst: 5) }
        // The queue starts nothing while it is blocked, so requests with a slot and a token wait there.
        manager.queue.addOperation { _ = gate.wait(timeout: .now() + 60) }
        let early = (0..<5).map { manager.enqueue(.stub("early \($0)")) }
        clock.advance(by: .seconds(3_600))
        let sent = (0..<5).map { manager.enqueue(.stub("sent \($0)")) }
        for operation in early { operation.cancel() }
        let last = manager.enqueue(.stub("last"))
        gate.signal()
        for operation in sent { _ = try await operation.response() }
        await look { early.allSatisfy(\.isFinished) }
        #expect(manager.why(last).contains("1 request in") && server.exchanges.count == 5)
        clock.advance(by: .seconds(1))
        _ = try await last.response()
        await manager.drain()
    }

    @Test func anUnsentRequestUsesNoToken() async throws {
        let (server, clock, gate) = (StubServer(), VirtualClock(), DispatchSemaphore(value: 0))
        let manager = server.manager(clock: clock) { $0.requestRate = .perSecond(1) }
        // The queue starts nothing while it is blocked.
        manager.queue.addOperation { _ = gate.wait(timeout: .now() + 60) }
        let first = manager.enqueue(.stub("first"))
        let second = manager.enqueue(.stub("second"))
        await clock.armed.wait()
        first.cancel()
        gate.signal()
        _ = try await second.response()
        #expect(clock.elapsed == .zero && server.paths == ["/second"])
    }
}
