import Testing

@testable import Convoy

@Suite struct HostLimitTests {
    private static let roundTrip = Duration.milliseconds(50)
    private let start = ContinuousClock.now

    private func limit(_ initial: Int = 4, maximum: Int = 64) -> HostLimit {
        HostLimit(AdaptiveLimits(maximum: maximum, initial: initial))
    }

    /// Simulates round trips that use the whole limit and succeed; returns the time when the last one ends.
    @discardableResult
    private func succeed(
        _ limit: inout HostLimit, roundTrips: Int, from begin: ContinuousClock.Instant, latency: Duration = roundTrip
    ) -> ContinuousClock.Instant {
        var now = begin
        for _ in 0..<roundTrips {
            now += latency
            let count = limit.current
            for _ in 0..<count {
                limit.finished(latency: latency, outcome: .succeeded, inFlight: limit.current, now: now)
            }
        }
        return now
    }

    private func refuse(_ limit: inout HostLimit, at now: ContinuousClock.Instant, latency: Duration = .milliseconds(5))
    {
        limit.finished(latency: latency, outcome: .overloaded, inFlight: limit.current, now: now)
    }

    @Test func documentedExampleCompiles() {
        var limits = AdaptiveLimits()
        limits.maximum = 32
        limits.initial = 8
        #expect(HostLimit(limits).current == 8)
        #expect(HostLimit(AdaptiveLimits()).current == 4)
        #expect(HostLimit(AdaptiveLimits()).words == nil)
        #expect(!HostLimit(AdaptiveLimits(initial: 1)).isAtBottom)
    }

    @Test func doublesInEachRoundTripUntilItHasBeenTooMuch() {
        var limit = limit()
        var limits: [Int] = []
        var now = start
        for _ in 0..<5 {
            now = succeed(&limit, roundTrips: 1, from: now)
            limits.append(limit.current)
        }
        #expect(limits == [8, 16, 32, 64, 64])
    }

    @Test func doesNotGrowUnlessItIsUsed() {
        var limit = limit(10)
        for index in 1...100 {
            limit.finished(
                latency: Self.roundTrip, outcome: .succeeded, inFlight: 7, now: start + Self.roundTrip * index)
        }
        #expect(limit.current == 10)
    }

    /// The latencies are those of refusals at once, and of timeouts.
    @Test(arguments: [Duration.milliseconds(100), .seconds(60)])
    func responsesToRequestsSentBeforeADecreaseDoNotLowerItAgain(latency: Duration) {
        var limit = limit(40)
        let now = start + latency
        for index in 0..<40 { refuse(&limit, at: now + .milliseconds(index), latency: latency) }
        #expect(limit.current == 36)
        // The request was sent after the decrease, so the lower limit was still too high.
        refuse(&limit, at: now + .milliseconds(5))
        #expect(limit.current == 32)
    }

    @Test func aRefusalLowersTheLimitByAtLeastOne() {
        var limit = limit(2)
        refuse(&limit, at: start)
        #expect(limit.current == 1)
        refuse(&limit, at: start + .seconds(1))
        #expect(limit.current == 1)
    }

    @Test func growthPausesForTwoRoundTripsAfterADecrease() {
        var limit = limit(40)
        let refused = succeed(&limit, roundTrips: 1, from: start)
        refuse(&limit, at: refused)
        let afterDecrease = limit.current
        // These responses belong to requests from before the decrease, or arrive within a round trip after the
        // decrease.
        for offset in [1, 49, 51, 99] {
            limit.finished(
                latency: Self.roundTrip, outcome: .succeeded, inFlight: 100, now: refused + .milliseconds(offset))
        }
        #expect(limit.current == afterDecrease)
        succeed(&limit, roundTrips: 1, from: refused + .milliseconds(51))
        #expect(limit.current > afterDecrease)
    }

    @Test func growsFastBelowTheLastBadLimitAndSlowlyNearIt() {
        var limit = limit(40)
        var now = succeed(&limit, roundTrips: 1, from: start)
        let bad = limit.current
        refuse(&limit, at: now)
        now = succeed(&limit, roundTrips: 6, from: now)
        #expect(limit.current >= bad - 2)
        now = succeed(&limit, roundTrips: 3, from: now)
        #expect(limit.current < bad)
        // The bad limit is still remembered. After further successes it is forgotten, and the limit grows beyond it.
        #expect(limit.words != nil)
        succeed(&limit, roundTrips: 100, from: now)
        #expect(limit.current == 64)
        #expect(limit.words == nil)
    }

    @Test func repeatedRefusalsHalveItAndKeepTheLastGoodLimit() {
        var limit = limit(32)
        var now = start
        for _ in 0..<8 {
            now += .milliseconds(5)
            refuse(&limit, at: now)
        }
        #expect(limit.current == 1)
        #expect(limit.isAtBottom)
        now = succeed(&limit, roundTrips: 10, from: now)
        #expect(!limit.isAtBottom)
        #expect(limit.current >= 24)
    }

    @Test func refusalWithLittleUnderWayHalvesItAtMost() {
        var limit = limit(32)
        limit.finished(latency: .milliseconds(5), outcome: .overloaded, inFlight: 1, now: start)
        #expect(limit.current == 14)
        #expect(limit.words == "its host is limited to 14 concurrent requests, because 16 were too many")
    }

    @Test func neutralEndsChangeNothing() {
        var limit = limit(8)
        for index in 0..<1000 {
            limit.finished(
                latency: .seconds(index % 7), outcome: .neutral, inFlight: index % 9, now: start + .seconds(index))
        }
        #expect(limit.current == 8)
    }

    @Test func grownLatencyStopsGrowthAndThenLowersItButNotBelowTheInitialOne() {
        var limit = limit(8)
        var now = succeed(&limit, roundTrips: 2, from: start)
        #expect(limit.current == 32)
        now = succeed(&limit, roundTrips: 10, from: now, latency: .milliseconds(80))
        let held = limit.current
        now = succeed(&limit, roundTrips: 10, from: now, latency: .milliseconds(80))
        #expect(limit.current == held)
        now = succeed(&limit, roundTrips: 4, from: now, latency: .milliseconds(200))
        #expect(limit.current < held)
        now = succeed(&limit, roundTrips: 60, from: now, latency: .milliseconds(200))
        #expect(limit.current == 8)
    }

    @Test func aLimitLoweredForLatencyIsRememberedAsTooHigh() {
        var limit = limit(8)
        var now = succeed(&limit, roundTrips: 2, from: start)
        while limit.current < 33 { now = succeed(&limit, roundTrips: 1, from: now) }
        let most = limit.current
        while limit.current >= most { now = succeed(&limit, roundTrips: 1, from: now, latency: .milliseconds(400)) }
        #expect(
            limit.words == "its host is limited to \(limit.current) concurrent requests, because \(most) were too many")
    }

    @Test func slowHostStillGetsTheInitialLimitBack() {
        var limit = limit(8, maximum: 8)
        var now = succeed(&limit, roundTrips: 4, from: start)
        for _ in 0..<8 {
            now += .milliseconds(5)
            refuse(&limit, at: now)
        }
        #expect(limit.current == 1)
        succeed(&limit, roundTrips: 40, from: now, latency: .milliseconds(500))
        #expect(limit.current == 8)
    }

    @Test func oneSlowResponseOfEightDoesNotLowerTheLimit() {
        var limit = limit(4, maximum: 8)
        var now = succeed(&limit, roundTrips: 4, from: start)
        #expect(limit.current == 8)
        now += .seconds(3)
        limit.finished(latency: .seconds(3), outcome: .succeeded, inFlight: 8, now: now)
        for _ in 0..<4 {
            now = succeed(&limit, roundTrips: 1, from: now)
            #expect(limit.current == 8)
        }
    }

    @Test func valuesOutOfRangeAreBroughtIntoIt() {
        var limits = AdaptiveLimits(minimum: 10, maximum: -3, initial: .max)
        #expect(HostLimit(limits).current == 10)
        limits = AdaptiveLimits(minimum: .min, maximum: .max, initial: .max)
        #expect(HostLimit(limits).current == 65_536)
        limits = AdaptiveLimits(minimum: .max, maximum: .min, initial: .min)
        #expect(HostLimit(limits).current == 65_536)
        limits.decreaseFactor = .nan
        limits.latencyTolerance = -.infinity
        limits.latencyMemory = .zero
        #expect(limits.inRange.decreaseFactor == 0.9)
        #expect(limits.inRange.latencyTolerance == 1.25)
        #expect(limits.inRange.latencyMemory == .seconds(1))
    }

    @Test(arguments: UInt64(1)...20)
    func noInputTrapsOrLeavesTheRange(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let wholes = [Int.min, -1, 0, 1, 2, 7, 64, .max]
        let fractions = [-Double.infinity, -1, 0, 0.5, 1, 2, 1e300, .infinity, .nan]
        let durations: [Duration] = [
            .seconds(Int64.min), .seconds(-1), .zero, .nanoseconds(1), .milliseconds(50), .seconds(3600),
            .seconds(Int64.max),
        ]
        func any<Element>(_ choices: [Element]) -> Element {
            choices[Int.random(in: choices.indices, using: &generator)]
        }
        for _ in 0..<50 {
            var limits = AdaptiveLimits(minimum: any(wholes), maximum: any(wholes), initial: any(wholes))
            (limits.decreaseFactor, limits.latencyTolerance) = (any(fractions), any(fractions))
            limits.latencyMemory = any(durations)
            let range = limits.inRange.minimum...limits.inRange.maximum
            var limit = HostLimit(limits)
            var now = start
            for _ in 0..<200 {
                now += any([.zero, .milliseconds(1), .seconds(40), .seconds(-3)])
                limit.finished(
                    latency: any(durations), outcome: any([.succeeded, .succeeded, .overloaded, .neutral]),
                    inFlight: any(wholes), now: now)
                #expect(range.contains(limit.current))
            }
        }
    }
}
