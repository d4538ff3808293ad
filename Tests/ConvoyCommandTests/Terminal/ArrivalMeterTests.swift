import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct ArrivalMeterTests {
    private let start = ContinuousClock.now

    /// Returns a meter with ten samples a second until a moment, and that moment.
    private func meter(
        _ milliseconds: Int, from first: Int = 0, bytes: (Int) -> Int64
    ) -> (meter: ArrivalMeter, now: ContinuousClock.Instant) {
        var meter = ArrivalMeter()
        for moment in stride(from: first, through: milliseconds, by: 100) {
            meter.note(bytes(moment), at: start + .milliseconds(moment))
        }
        return (meter, start + .milliseconds(milliseconds))
    }

    /// Sources of 1,000 bytes a second.
    ///
    /// Each function returns the total number of bytes after a number of milliseconds.
    private static let sources: [@Sendable (Int) -> Int64] = [
        { Int64($0) },
        // The bytes of a second arrive at once, as with nginx's limit: at the start of each second, or in its middle.
        { Int64($0 / 1_000 + 1) * 1_000 }, { Int64(($0 + 500) / 1_000) * 1_000 },
        // The source is silent for two seconds first.
        { Int64(max(0, $0 - 2_000)) },
        // Twice the bytes arrive in every other tenth of a second.
        { Int64($0 / 200 * 200) },
    ]

    @Test(arguments: 0..<5) func theRateIsTrueFromTheThirdSecondOn(source: Int) throws {
        for milliseconds in stride(from: source == 3 ? 5_000 : 3_000, through: 15_000, by: 100) {
            let (meter, now) = meter(milliseconds, bytes: Self.sources[source])
            let rate = try #require(meter.bytesPerSecond(at: now))
            #expect(abs(rate - 1_000) <= 150, "after \(milliseconds) ms")
        }
    }

    @Test func theRateIsNilUntilItCanBeMeasured() {
        for milliseconds in stride(from: 0, to: 1_000, by: 100) {
            let (meter, now) = meter(milliseconds) { Int64($0) }
            #expect(meter.bytesPerSecond(at: now) == nil)
        }
        let (second, atOne) = meter(1_000) { Int64($0) }
        #expect(second.bytesPerSecond(at: atOne) != nil)
        #expect(second.secondsLeft(for: 1_000, at: atOne) == nil)
        let (third, atTwo) = meter(2_000) { Int64($0) }
        #expect(third.secondsLeft(for: 1_000, at: atTwo).map { abs($0 - 1) < 0.1 } == true)
        #expect(ArrivalMeter().bytesPerSecond(at: start) == nil)
        #expect(!ArrivalMeter().isStalled(at: start))
    }

    @Test func aRateThatChangesIsFollowedWithinTheWindow() throws {
        let (meter, now) = meter(10_000) { $0 < 4_000 ? Int64($0) * 10 : 40_000 + Int64($0 - 4_000) }
        let rate = try #require(meter.bytesPerSecond(at: now))
        #expect(abs(rate - 1_000) < 1)
    }

    @Test func overdueBytesLowerTheRateUntilItIsStalled() throws {
        let (meter, now) = meter(4_000) { Int64($0) }
        let late = try #require(meter.bytesPerSecond(at: now + .seconds(4)))
        #expect(late > 400 && late < 600)
        #expect(!meter.isStalled(at: now + .milliseconds(4_999)))
        #expect(meter.isStalled(at: now + .seconds(5)))
        #expect(meter.bytesPerSecond(at: now + .seconds(5)) == 0)
        #expect(meter.secondsLeft(for: 1, at: now + .seconds(5)) == nil)
    }

    @Test func afterAStallTheRateBeginsAnew() {
        var (meter, now) = meter(3_000) { Int64($0) }
        now += .seconds(60)
        meter.note(3_500, at: now)
        // Only the 500 bytes that arrived after the stall count.
        #expect(meter.bytesPerSecond(at: now + .seconds(1)) == 500)
        for tenth in 1...30 { meter.note(3_500 + Int64(tenth) * 500, at: now + .milliseconds(tenth * 100)) }
        #expect(meter.bytesPerSecond(at: now + .seconds(3)).map { abs($0 - 5_000) < 1 } == true)
    }

    @Test func aCountThatRunsBackwardsStartsANewMeasurement() {
        let (meter, now) = meter(4_000) { $0 < 2_000 ? 900_000 + Int64($0) : Int64($0 - 2_000) }
        #expect(meter.bytesPerSecond(at: now).map { abs($0 - 1_000) < 150 } == true)
    }
}
