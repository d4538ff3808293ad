import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RateLimitTests {
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
        // The last payer to leave removes the timer.
        _ = charge(limit, 50_000, to: first)
        limit.leave(first.identity)
        #expect(!clock.advanceToNext())
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

@Suite struct TokenBucketTests {
    private let start = ContinuousClock.now

    /// Charges bytes, and returns the time after the start at which they are paid for.
    private func charge(_ bucket: inout TokenBucket, _ count: Int, after time: Duration = .zero) -> Duration {
        let position = bucket.charge(count, now: start + time)
        return start.duration(to: bucket.moment(of: position))
    }

    @Test func chargesArePaidOneAfterTheOtherAndNoMoreThanABurstIsSavedUp() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        // A tenth of a second may come at once.
        #expect(charge(&bucket, 100) <= .zero)
        #expect(charge(&bucket, 500) == .milliseconds(500))
        #expect(charge(&bucket, 1_000, after: .milliseconds(100)) == .milliseconds(1_500))
        #expect(charge(&bucket, 0, after: .milliseconds(200)) == .milliseconds(1_500))
        #expect(charge(&bucket, 50, after: .milliseconds(1_500)) == .milliseconds(1_550))
        #expect(charge(&bucket, 1_100, after: .seconds(3_600)) == .seconds(3_601))
    }

    /// Charges that are 30 ms late still reach the rate.
    ///
    /// The burst covers a delay of up to 100 ms.
    @Test func littleDelaysCostNothing() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        var now = Duration.zero
        for _ in 0..<1_000 { now = max(now, charge(&bucket, 100, after: now)) + .milliseconds(30) }
        #expect(now > .seconds(99) && now < .seconds(101), "\(now)")
    }

    @Test func aRateThatDividesNothingDoesNotDrift() {
        var bucket = TokenBucket(rate: 7, now: start)
        var now = Duration.zero
        for _ in 0..<100_000 { now = max(now, charge(&bucket, 3, after: now)) }
        // The first burst of one byte is free, and the result is rounded only once.
        let exact = Duration.seconds(299_999) / 7
        #expect(now == exact)
    }

    @Test(arguments: [1, 7, 1_000_000, Int64.max])
    func nothingOverflows(rate: Int64) {
        var bucket = TokenBucket(rate: rate, now: start)
        for _ in 0..<5 { #expect(charge(&bucket, .max) > .zero) }
        bucket.setRate(.max, now: start + .seconds(1_000_000_000))
        _ = charge(&bucket, .max, after: .seconds(2_000_000_000))
        bucket.setRate(1, now: start)
        #expect(charge(&bucket, .max, after: .seconds(2_000_000_000)) > .seconds(1_000_000_000))
    }

    @Test func anotherRateMovesTheMomentOfADebt() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        let position = bucket.charge(2_100, now: start)
        #expect(bucket.moment(of: position) == start + .seconds(2))
        bucket.setRate(100, now: start + .seconds(1))
        #expect(bucket.moment(of: position) == start + .seconds(11))
        bucket.setRate(2_000, now: start + .seconds(6))
        #expect(bucket.moment(of: position) == start + .seconds(6) + .milliseconds(250))
        // The credit of the earlier rate is not more than the burst of the new one.
        bucket.setRate(100, now: start + .seconds(50))
        #expect(charge(&bucket, 110, after: .seconds(60)) == .seconds(61))
    }

}

@Suite struct SpeedWindowTests {
    private let start = ContinuousClock.now
    private static let minimum = MinimumSpeed(bytesPerSecond: 100, duration: .seconds(10))

    private func running() -> SpeedWindow {
        var window = SpeedWindow(Self.minimum)
        window.begin()
        window.note(isRunning: true, change: 0, now: start)
        return window
    }

    @Test func enoughBeginsTheNextStretchAndTooFewBytesAreReported() {
        var window = running()
        window.add(1_000)
        #expect(window.stall(now: start + .seconds(10)) == nil)
        window.add(999)
        #expect(window.due == start + .seconds(20))
        #expect(window.stall(now: start + .seconds(19)) == nil)
        #expect(window.stall(now: start + .seconds(20)).map { $0 == (999, .seconds(10)) } == true)
    }

    @Test func ofTwoChangesTheLaterCounts() {
        var window = running()
        window.note(isRunning: true, change: 2, now: start + .seconds(1))
        window.note(isRunning: false, change: 1, now: start + .seconds(2))
        #expect(window.due == start + .seconds(10))
    }

    @Test func nothingOverflows() {
        var window = SpeedWindow(MinimumSpeed(bytesPerSecond: .max, duration: .seconds(Int64.max)))
        window.note(isRunning: true, change: 0, now: start)
        window.add(.max)
        window.add(.max)
        #expect(window.stall(now: start + .seconds(5)) == nil)
        #expect(window.due == start + .seconds(1_000_000_000))
    }
}
