import Foundation
import Testing

@testable import Convoy

@Suite struct RateLimitTests {
    /// An object that the limit charges, with a name for the log.
    private final class Payer: Sendable {
        let name: String
        init(_ name: String) { self.name = name }
        var identity: ObjectIdentifier { ObjectIdentifier(self) }
    }

    private let clock = VirtualClock()
    private let woken = EventLog<String>()
    private let first = Payer("first")
    private let second = Payer("second")
    private let third = Payer("third")

    private func charge(_ limit: RateLimit, _ count: Int, to payer: Payer) -> Bool {
        limit.charge(
            count, to: payer.identity,
            wake: { [woken, clock] in
                // This callback calls the limit. A lock that the limit held during the callback would hang the test.
                #expect(!limit.holds(payer.identity))
                woken.record("\(payer.name) at \(Int(clock.elapsed.seconds))")
            })
    }

    @Test(arguments: [nil, 0, -1, Int64.min])
    func withoutALimitNothingWaits(rate: Int64?) {
        let limit = RateLimit(rate, clock: clock)
        #expect(charge(limit, .max, to: first))
        #expect(limit.bytesPerSecond == nil)
        #expect(limit.pieceBytes == .max)
        #expect(clock.armed.count == 0)
    }

    @Test func firstComeFirstServed() {
        let limit = RateLimit(1_000, clock: clock)
        #expect(charge(limit, 100, to: first))
        #expect(!charge(limit, 1_000, to: second))
        #expect(!charge(limit, 3_000, to: first))
        #expect(!charge(limit, 500, to: third))
        #expect(limit.holds(first.identity) && limit.holds(second.identity) && limit.holds(third.identity))
        clock.advance(by: .milliseconds(999))
        #expect(woken.events == [])
        clock.advance(by: .seconds(10))
        #expect(woken.events == ["second at 1", "first at 4", "third at 4"])
        #expect(!clock.advanceToNext())
    }

    /// A transport may deliver bytes that it received before it was paused.
    @Test func chargedAgainHeWaitsForAll() {
        let limit = RateLimit(1_000, clock: clock)
        #expect(!charge(limit, 1_100, to: first))
        #expect(!charge(limit, 1_000, to: second))
        #expect(!charge(limit, 1_000, to: first))
        clock.advance(by: .seconds(10))
        #expect(woken.events == ["second at 2", "first at 3"])
    }

    @Test func aPayerThatLeavesIsNotWokenAndItsBytesAreStillCharged() {
        let limit = RateLimit(1_000, clock: clock)
        _ = charge(limit, 5_100, to: first)
        _ = charge(limit, 1_000, to: second)
        limit.leave(first.identity)
        limit.leave(first.identity)
        #expect(!limit.holds(first.identity))
        clock.advance(by: .seconds(10))
        #expect(woken.events == ["second at 6"])
    }

    @Test func theLastPayerToLeaveRemovesTheTimer() {
        let limit = RateLimit(1_000, clock: clock)
        _ = charge(limit, 5_100, to: first)
        _ = charge(limit, 1_000, to: second)
        limit.leave(second.identity)
        limit.leave(first.identity)
        #expect(!clock.advanceToNext())
    }

    @Test func aHigherRateWakesEarlier() {
        let limit = RateLimit(1_000, clock: clock)
        _ = charge(limit, 10_100, to: first)
        clock.advance(by: .seconds(2))
        limit.bytesPerSecond = 8_000
        clock.advance(by: .seconds(1))
        #expect(woken.events == ["first at 3"])
        #expect(!clock.advanceToNext())
    }

    @Test func aLowerRateWakesLater() {
        let limit = RateLimit(1_000, clock: clock)
        _ = charge(limit, 2_100, to: first)
        clock.advance(by: .seconds(1))
        limit.bytesPerSecond = 100
        clock.advance(by: .seconds(9))
        #expect(woken.events == [])
        clock.advance(by: .seconds(1))
        #expect(woken.events == ["first at 11"])
    }

    @Test(arguments: [nil, 0, -1] as [Int64?])
    func removingTheLimitWakesAllInOrder(rate: Int64?) {
        let limit = RateLimit(1, clock: clock)
        for payer in [third, first, second] { _ = charge(limit, 1_000_000, to: payer) }
        limit.bytesPerSecond = rate
        #expect(woken.events == ["third at 0", "first at 0", "second at 0"])
        #expect(limit.bytesPerSecond == nil)
        #expect(!clock.advanceToNext())
        limit.bytesPerSecond = 1_000
        #expect(charge(limit, 100, to: first))
        #expect(!charge(limit, 1, to: first))
    }

    @Test func aPieceIsATwentiethOfASecond() {
        let limit = RateLimit(1, clock: clock)
        #expect(limit.pieceBytes == 1_024)
        limit.bytesPerSecond = 100_000
        #expect(limit.pieceBytes == 5_000)
        limit.bytesPerSecond = .max
        #expect(limit.pieceBytes > 1 << 30)
    }

    /// The test charges payers, removes payers and fires timers at the same time.
    ///
    /// The limit wakes each waiting payer that has not left.
    @Test func concurrentPayersAreAllWoken() async {
        let (clock, woken, left, held) = (clock, Locked(0), Locked(0), Locked(0))
        let limit = RateLimit(1_000, clock: clock)
        let payers = (0..<400).map { Payer("\($0)") }
        await offPool {
            DispatchQueue.concurrentPerform(iterations: payers.count) { index in
                let payer = payers[index]
                // A payer that is woken may be charged again, and may leave before the call.
                let isPaid = limit.charge(
                    200 + index, to: payer.identity, wake: { woken.withLock { $0 += 1 } })
                if !isPaid { held.withLock { $0 += 1 } }
                if index % 5 == 0, limit.holds(payer.identity) {
                    limit.leave(payer.identity)
                    left.withLock { $0 += 1 }
                }
                if index % 7 == 0 { clock.advanceToNext() }
                if index % 50 == 0 { limit.bytesPerSecond = Int64(100 + index) }
            }
        }
        while clock.advanceToNext() {}
        #expect(payers.allSatisfy { !limit.holds($0.identity) })
        let (heldCount, goneCount) = (held.withLock { $0 }, woken.withLock { $0 } + left.withLock { $0 })
        // A payer that the limit wakes just before the payer leaves counts twice.
        #expect(heldCount > 300 && goneCount >= heldCount && goneCount <= heldCount + 80, "\(heldCount) \(goneCount)")
    }
}
