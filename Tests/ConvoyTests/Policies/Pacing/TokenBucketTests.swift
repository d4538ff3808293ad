import Foundation
import Testing

@testable import Convoy

@Suite struct TokenBucketTests {
    private let start = ContinuousClock.now

    /// Charges bytes, and returns the time after the start at which they are paid for.
    private func charge(_ bucket: inout TokenBucket, _ count: Int, after time: Duration = .zero) -> Duration {
        let position = bucket.charge(count, now: start + time)
        return start.duration(to: bucket.moment(of: position))
    }

    @Test func aTenthOfASecondMayComeAtOnce() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        #expect(charge(&bucket, 100) <= .zero)
        #expect(charge(&bucket, 1) == .milliseconds(1))
    }

    @Test func chargesArePaidOneAfterTheOther() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        #expect(charge(&bucket, 600) == .milliseconds(500))
        #expect(charge(&bucket, 1_000, after: .milliseconds(100)) == .milliseconds(1_500))
        #expect(charge(&bucket, 0, after: .milliseconds(200)) == .milliseconds(1_500))
        #expect(charge(&bucket, 50, after: .milliseconds(1_500)) == .milliseconds(1_550))
    }

    @Test func moreThanABurstIsNotSavedUp() {
        var bucket = TokenBucket(rate: 1_000, now: start)
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

    @Test(arguments: [0, -1, Int64.min])
    func noRateIsOneByteASecond(rate: Int64) {
        var bucket = TokenBucket(rate: rate, now: start)
        #expect(charge(&bucket, 2) == .seconds(1))
        bucket.setRate(rate, now: start)
        #expect(charge(&bucket, -5) == .seconds(1))
    }

    @Test func anotherRateMovesTheMomentOfADebt() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        let position = bucket.charge(2_100, now: start)
        #expect(bucket.moment(of: position) == start + .seconds(2))
        bucket.setRate(100, now: start + .seconds(1))
        #expect(bucket.moment(of: position) == start + .seconds(11))
        bucket.setRate(2_000, now: start + .seconds(6))
        #expect(bucket.moment(of: position) == start + .seconds(6) + .milliseconds(250))
    }

    @Test func creditOfAnotherRateIsNotMoreThanItsBurst() {
        var bucket = TokenBucket(rate: 1_000, now: start)
        bucket.setRate(100, now: start + .seconds(5))
        #expect(charge(&bucket, 110, after: .seconds(6)) == .seconds(7))
    }
}
