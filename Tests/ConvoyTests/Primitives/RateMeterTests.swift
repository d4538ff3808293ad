import Testing

@testable import Convoy

@Suite struct RateMeterTests {
    @Test func aSteadyRateIsItself() throws {
        var meter = RateMeter()
        let start = ContinuousClock.now
        for tick in 0...50 { meter.note(Int64(tick) * 100_000, at: start + .milliseconds(100 * tick)) }
        #expect(abs(try #require(meter.bytesPerSecond) - 1_000_000) < 1)
    }

    @Test func aStallFadesAndARestartBeginsAnew() throws {
        var meter = RateMeter()
        let start = ContinuousClock.now
        meter.note(0, at: start)
        meter.note(1_000, at: start + .seconds(1))
        meter.note(1_000, at: start + .seconds(4))
        #expect(try #require(meter.bytesPerSecond) < 400)
        meter.note(0, at: start + .seconds(5))
        #expect(meter.bytesPerSecond == nil)
    }

    @Test func eachDirectionHasItsOwnRate() {
        var (meter, progress) = (RateMeter(), ByteProgress())
        let start = ContinuousClock.now
        // The rate counts from the first bytes, so the time before them does not lower it.
        progress.measure(with: &meter, at: start - .seconds(9))
        progress.completedBytes = 100
        progress.measure(with: &meter, at: start)
        #expect(progress.bytesPerSecond == nil)
        progress.completedBytes = 600
        progress.measure(with: &meter, at: start + .milliseconds(500))
        #expect(progress.bytesPerSecond == 1_000)
    }
}
