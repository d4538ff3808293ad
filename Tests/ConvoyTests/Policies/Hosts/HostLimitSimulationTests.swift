import Testing

@testable import Convoy

/// Tests how well the learned limit follows a host, in virtual time.
///
/// A run lasts 42 s, about 20,000 requests at 24 workers.
@Suite(.serialized) struct HostLimitSimulationTests {
    private static let duration = 42_000_000

    /// Numbers of workers that walk at random within a range: every 250 ms by at most an eighth of it.
    private static func walk(_ range: ClosedRange<Int>, seed: UInt64) -> [Int] {
        var generator = SeededGenerator(seed: seed)
        var value = (range.lowerBound + range.upperBound) / 2
        let stride = max(1, range.count / 8)
        return (0..<600).map { _ in
            let next = value + Int.random(in: -stride...stride, using: &generator)
            value = min(max(next, range.lowerBound), range.upperBound)
            return value
        }
    }

    /// The requests that so many workers, each for 250 ms, complete at most.
    private static func capacity(_ workers: ArraySlice<Int>) -> Double { Double(workers.reduce(0, +)) * 0.25 / 0.05 }

    /// If refusals cost nothing, the best limit keeps all workers busy, so the test needs no search for it.
    @Test(arguments: [8...16, 16...32, 32...60], LongRuns.some(1, of: [11, 12, 13] as [UInt64]))
    func keepsNineTenthsOfAllWorkersBusy(_ range: ClosedRange<Int>, _ seed: UInt64) {
        let workers = Self.walk(range, seed: seed)
        let learned = Simulation(seed: seed) { workers[$0 / 250_000] }.run(for: Self.duration)
        #expect(Double(learned.successes) >= 0.9 * Self.capacity(workers.prefix(Self.duration / 250_000)))
        #expect(learned.refusalsPerSuccess < 0.02)
    }

    @Test(arguments: [2, 4, 48])
    func steadyHostRefusesFewAndIsKeptBusy(_ workers: Int) {
        let learned = Simulation { _ in workers }.run(for: Self.duration)
        #expect(Double(learned.successes) >= 0.95 * Double(workers * Self.duration) / 50_000)
        #expect(learned.refusalsPerSuccess < 0.04)
    }

    @Test(arguments: [24, 100], LongRuns.some(1, of: [1, 2, 3] as [UInt64]))
    func doublingEndsWhenALineBeginsToFormAndTheLineIsGoneInTwoSeconds(_ workers: Int, _ seed: UInt64) {
        let learned = Simulation(seed: seed, waits: true, limits: AdaptiveLimits(maximum: 2000)) { _ in workers }
            .run(for: 10_000_000)
        #expect(learned.limits.allSatisfy { $0 <= 4 * workers })
        #expect(learned.limits[20...].allSatisfy { (workers...2 * workers + 4).contains($0) })
    }

    @Test(arguments: LongRuns.some(1, of: [1, 2] as [UInt64]))
    func aStandingQueueIsNeverTheBaseLatency(_ seed: UInt64) {
        var limits = AdaptiveLimits()
        limits.latencyMemory = .seconds(3)
        let workers = Self.walk(16...32, seed: seed)
        let learned = Simulation(seed: seed, waits: true, limits: limits) { workers[$0 / 250_000] }
            .run(for: 3 * Self.duration)
        #expect(Double(learned.successes) >= 0.95 * Self.capacity(workers.prefix(3 * Self.duration / 250_000)))
        // A limit of twice the workers causes twice the latency, 100 ms.
        #expect(learned.meanLatency < 110_000)
    }

    @Test func aLongerPathIsNotAQueueOnceItIsMeasured() {
        var simulation = Simulation(waits: true) { _ in 24 }
        simulation.serviceTime = { $0 < 10_000_000 ? 50_000 : 150_000 }
        let learned = simulation.run(for: 60_000_000)
        // The latency first looks like a queue. The best latency was measured at the start, and again after
        // `latencyMemory`, 30 s.
        #expect(learned.limits[170..<300].allSatisfy { $0 < 24 })
        #expect(learned.limits[350...].allSatisfy { $0 >= 24 })
    }
}

/// A host, and a client that always has more requests than it may send at once.
///
/// Each worker needs `serviceTime` for a request, up to a tenth more or less. A request without a free worker waits, or
/// is refused with a 503 after 5 ms. Times are in microseconds of virtual time. Only the seed decides random choices.
private struct Simulation {
    struct Figures {
        var successes = 0
        var refusals = 0
        var latencySum = 0
        /// The limit every 100 ms.
        var limits: [Int] = []

        var refusalsPerSuccess: Double { Double(refusals) / Double(max(1, successes)) }
        var meanLatency: Int { latencySum / max(1, successes) }
    }

    private let waits: Bool
    private let workers: (Int) -> Int
    var serviceTime: (Int) -> Int = { _ in 50_000 }
    private var limit: HostLimit
    private var generator: SeededGenerator
    private var ends = Heap<End>()
    private var line: [(number: Int, sent: Int)] = []
    private var firstInLine = 0
    private var working = 0
    private var inFlight = 0
    private var sentCount = 0

    init(seed: UInt64 = 1, waits: Bool = false, limits: AdaptiveLimits = .init(), workers: @escaping (Int) -> Int) {
        (self.waits, self.workers) = (waits, workers)
        (limit, generator) = (HostLimit(limits), SeededGenerator(seed: seed))
    }

    func run(for duration: Int) -> Figures {
        var simulation = self
        return simulation.runs(for: duration)
    }

    private mutating func runs(for duration: Int) -> Figures {
        var figures = Figures()
        let start = ContinuousClock.now
        while inFlight < limit.current { send(at: 0) }
        while let end = ends.popFirst(), end.time < duration {
            let (time, latency) = (end.time, end.time - end.sent)
            while figures.limits.count * 100_000 <= time { figures.limits.append(limit.current) }
            if end.succeeded {
                working -= 1
                figures.successes += 1
                figures.latencySum += latency
            } else {
                figures.refusals += 1
            }
            limit.finished(
                latency: .microseconds(latency), outcome: end.succeeded ? .succeeded : .overloaded, inFlight: inFlight,
                now: start + .microseconds(time))
            inFlight -= 1
            while firstInLine < line.count, working < workers(time) {
                work(line[firstInLine].number, sent: line[firstInLine].sent, at: time)
                firstInLine += 1
            }
            while inFlight < limit.current { send(at: time) }
        }
        return figures
    }

    private mutating func send(at time: Int) {
        inFlight += 1
        sentCount += 1
        if working < workers(time), firstInLine == line.count { return work(sentCount, sent: time, at: time) }
        if waits { return line.append((sentCount, time)) }
        ends.insert(End(time: time + 5_000, succeeded: false, number: sentCount, sent: time))
    }

    private mutating func work(_ number: Int, sent: Int, at time: Int) {
        working += 1
        let serviceTime = serviceTime(time)
        let need = serviceTime + Int.random(in: -serviceTime / 10...serviceTime / 10, using: &generator)
        ends.insert(End(time: time + need, succeeded: true, number: number, sent: sent))
    }

    /// The end of a request; of those at the same time, refusals are the first.
    private struct End: Comparable {
        let time: Int
        let succeeded: Bool
        let number: Int
        let sent: Int

        static func < (left: End, right: End) -> Bool {
            (left.time, left.succeeded ? 1 : 0, left.number) < (right.time, right.succeeded ? 1 : 0, right.number)
        }
    }
}
