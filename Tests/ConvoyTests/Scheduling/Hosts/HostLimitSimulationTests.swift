import Convoy
import Testing

/// Tests how well the learned limit follows a host, in virtual time.
///
/// The host has *K* workers, each of which takes 50 ms (45 to 55) for a request. *K* walks at random within a range. A
/// request without a free worker is refused with a 503 after 5 ms, or waits. The client always has more work than it
/// may send, and a refused request is lost. A run lasts 42 s, about 20,000 requests at 24 workers.
@Suite(.serialized) struct HostLimitSimulationTests {
    private static let duration = 42_000_000

    private static func host(
        _ workers: ClosedRange<Int>, _ excess: SimulatedHost.Excess, _ seed: UInt64
    ) -> SimulatedHost {
        SimulatedHost(workers: .wandering(workers, every: 250_000, seed: seed), excess: excess)
    }

    /// A host so far away that a refusal takes as long as a response, a near host, and a slow host.
    @Test(
        arguments: [(50_000, 50_000), (10_000, 2000), (300_000, 30_000)], LongRuns.some(1, of: [21, 22] as [UInt64]))
    func distanceAndSlownessOfTheHostDoNotMatter(_ times: (Int, Int), _ seed: UInt64) {
        // The number of workers changes once in ten service times. No limit could follow much faster changes.
        let host = SimulatedHost(
            workers: .wandering(16...32, every: 10 * times.0, seed: seed), excess: .isRefused,
            serviceTime: .fixed(times.0), refusalTime: times.1)
        let best = Simulation.run(host, fixed: 32, for: 800 * times.0, seed: seed)
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 800 * times.0, seed: seed)
        #expect(learned.successes * 10 >= best.successes * 9)
        #expect(learned.refusalsPerSuccess <= 0.5 * best.refusalsPerSuccess)
        #expect(learned.refusalsPerSuccess < 0.03)
    }

    /// If refusals cost nothing, the best limit keeps all workers busy, so the test needs no search for it.
    @Test(arguments: [8...16, 16...32, 32...60], LongRuns.some(1, of: [11, 12, 13] as [UInt64]))
    func keepsNineTenthsOfAllWorkersBusy(_ workers: ClosedRange<Int>, _ seed: UInt64) {
        let host = Self.host(workers, .isRefused, seed)
        let capacity = (0..<Self.duration / 250_000).map { Double(host.workers($0 * 250_000)) * 0.25 / 0.05 }
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: Self.duration, seed: seed)
        #expect(Double(learned.successes) >= 0.9 * capacity.reduce(0, +))
        #expect(learned.refusalsPerSuccess < 0.02)
        #expect(!learned.hasOpenedBreaker)
    }

    @Test(arguments: [2, 4, 8, 24, 48])
    func steadyHostRefusesFewAndIsKeptBusy(_ workers: Int) {
        let host = SimulatedHost(workers: .fixed(workers), excess: .isRefused)
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: Self.duration, seed: 1)
        #expect(learned.successesPerSecond >= 0.95 * Double(workers) / 0.05)
        #expect(learned.refusalsPerSuccess < 0.04)
    }

    @Test(arguments: [8, 16, 24, 28])
    func hostThatGetsSlowIsKeptBusyWithoutALongLine(_ workers: Int) {
        let host = SimulatedHost(workers: .fixed(workers), excess: .waits)
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 2 * Self.duration, seed: 1)
        #expect(learned.successesPerSecond >= 0.98 * Double(workers) / 0.05)
        // A limit of twice the workers causes twice the latency, 100 ms. The largest limit would cause more.
        #expect(learned.meanLatency <= 105)
        #expect(learned.limits.suffix(100).allSatisfy { (workers...2 * workers + 4).contains($0) })
    }

    @Test(arguments: [24, 100], LongRuns.some(1, of: [1, 2, 3] as [UInt64]))
    func doublingEndsWhenALineBeginsToFormAndTheLineIsGoneInTwoSeconds(_ workers: Int, _ seed: UInt64) {
        let host = SimulatedHost(workers: .fixed(workers), excess: .waits)
        let learned = Simulation.run(host, learning: AdaptiveLimits(maximum: 2000), for: 10_000_000, seed: seed)
        #expect(learned.limits.allSatisfy { $0 <= 4 * workers })
        #expect(learned.limits[20...].allSatisfy { (workers...2 * workers + 4).contains($0) })
    }

    @Test(arguments: LongRuns.some(1, of: [1, 2] as [UInt64]))
    func aStandingQueueIsNeverTheBaseLatency(_ seed: UInt64) {
        var limits = AdaptiveLimits()
        limits.latencyMemory = .seconds(3)
        let host = Self.host(16...32, .waits, seed)
        let learned = Simulation.run(host, learning: limits, for: 3 * Self.duration, seed: seed)
        let most = Simulation.run(host, fixed: 64, for: 3 * Self.duration, seed: seed)
        #expect(learned.successes >= most.successes * 95 / 100)
        #expect(learned.meanLatency < 110)
    }

    @Test(arguments: [(8, 16), (16, 32), (24, 48)], LongRuns.some(1, of: [1, 2, 3] as [UInt64]))
    func hostThatGrowsToItsDoubleIsUsedWithinTwoSeconds(_ workers: (Int, Int), _ seed: UInt64) {
        let timeline = Timeline.changing([workers.0, workers.1], every: 10_000_000)
        let host = SimulatedHost(workers: timeline, excess: .isRefused)
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 20_000_000, seed: seed)
        #expect(learned.limit(at: 9_900_000) <= workers.0 + 1)
        #expect(learned.limits[120...].allSatisfy { $0 * 10 >= workers.1 * 8 })
    }

    @Test(arguments: UInt64(1)...3)
    func hostThatGetsFasterIsUsedAgain(_ seed: UInt64) {
        // The queue forms at 16 workers, then at 32. The latency falls, so a higher limit is good again.
        let host = SimulatedHost(workers: .changing([16, 32], every: 10_000_000), excess: .waits)
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 20_000_000, seed: seed)
        #expect(learned.limit(at: 9_900_000) <= 36)
        #expect(learned.limits[130...].allSatisfy { $0 >= 32 })
    }

    @Test func aLongerPathIsNotAQueueOnceItIsMeasured() {
        let host = SimulatedHost(
            workers: .fixed(24), excess: .waits, serviceTime: .changing([50_000, 150_000], every: 10_000_000))
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 60_000_000, seed: 1)
        // The latency first looks like a queue. The best latency was measured at the start, and again after
        // `latencyMemory`, 30 s.
        #expect(learned.limits[170..<300].allSatisfy { $0 < 24 })
        #expect(learned.limits[350...].allSatisfy { $0 >= 24 })
    }

    @Test(arguments: UInt64(1)...3)
    func anOutageLowersTheLimitToOneAndItRecovers(_ seed: UInt64) {
        var host = SimulatedHost(workers: .fixed(24), excess: .isRefused)
        host.outage = 5_000_000..<8_000_000
        let learned = Simulation.run(host, learning: AdaptiveLimits(), for: 12_000_000, seed: seed)
        #expect(learned.limits[52..<80].allSatisfy { $0 == 1 })
        #expect(learned.limits[90...].allSatisfy { $0 >= 20 })
        #expect(learned.hasOpenedBreaker)
    }
}
