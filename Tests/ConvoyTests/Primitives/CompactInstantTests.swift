import Testing

@testable import Convoy

@Suite struct CompactInstantTests {
    @Test(arguments: [Duration.zero, .nanoseconds(1), .nanoseconds(-1), .seconds(86_400), .milliseconds(-3)])
    func anInstantIsPreservedToTheNanosecond(_ distance: Duration) {
        let instant = ContinuousClock.now + distance
        #expect(CompactInstant(instant).instant == instant)
        #expect(CompactInstant(instant) == CompactInstant(instant))
    }

    @Test func instantsOutOfRangeAreClamped() {
        let now = ContinuousClock.now
        for years in [300, 1_000, 250_000_000_000] as [Int64] {
            #expect(CompactInstant(now + .seconds(years * 31_536_000)).instant > now + .seconds(9_000_000_000))
            #expect(CompactInstant(now - .seconds(years * 31_536_000)).instant < now - .seconds(9_000_000_000))
        }
    }

    @Test func anOptionalMomentTakesEightBytes() {
        struct Moments {
            @OptionalMoment var first: CompactInstant?
            @OptionalMoment var second: CompactInstant?
        }
        var moments = Moments()
        #expect(moments.first == nil && moments.second == nil)
        let moment = CompactInstant(ContinuousClock.now - .seconds(250_000_000_000 * 31_536_000))
        (moments.first, moments.second) = (moment, CompactInstant(ContinuousClock.now))
        #expect(moments.first == moment && moments.second != nil)
        moments.first = nil
        #expect(moments.first == nil && moments.second != nil)
        #expect(MemoryLayout<Moments>.size == 16)
    }

    @Test func aStructWithMomentsIsPlainMemory() {
        #expect(MemoryLayout<CompactInstant>.size == 8)
        #expect(_isPOD(CompactInstant.self))
        #expect(_isPOD(Timings.self))
    }
}
