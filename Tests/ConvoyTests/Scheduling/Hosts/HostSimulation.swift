// Simulates a host and its client in virtual time; only the seed decides random choices.

@testable import Convoy

/// A number that changes over time, such as the number of workers of a host.
///
/// Times are in microseconds of virtual time throughout the simulation.
struct Timeline: Sendable {
    private let step: Int
    private let values: [Int]

    static func fixed(_ value: Int) -> Timeline { Timeline(step: .max, values: [value]) }

    /// Several numbers in order, each for a duration of `step`.
    static func changing(_ values: [Int], every step: Int) -> Timeline { Timeline(step: step, values: values) }

    /// A random walk that begins in the middle of a range.
    ///
    /// Every `step` the value moves by at most an eighth of the range.
    static func wandering(_ range: ClosedRange<Int>, every step: Int, seed: UInt64) -> Timeline {
        var generator = SeededGenerator(seed: seed)
        var value = (range.lowerBound + range.upperBound) / 2
        let stride = max(1, range.count / 8)
        let values = (0..<4096).map { _ in
            let next = value + Int.random(in: -stride...stride, using: &generator)
            value = min(max(next, range.lowerBound), range.upperBound)
            return value
        }
        return Timeline(step: step, values: values)
    }

    func callAsFunction(_ time: Int) -> Int { values[min(time / step, values.count - 1)] }
}

/// A host with workers, each of which needs `serviceTime` for a request, up to a tenth more or less.
struct SimulatedHost: Sendable {
    enum Excess: Sendable {
        /// The host responds with 503 after `refusalTime` if no worker is free.
        case isRefused
        /// The request waits. The latency grows linearly with the number of requests beyond the workers.
        case waits
    }

    var workers: Timeline
    var excess: Excess
    var serviceTime = Timeline.fixed(50_000)
    var refusalTime = 5000
    /// The time during which the host responds to every request with 503.
    var outage = 0..<0
}

/// Simulates a client that always has more requests than it may send at once.
struct Simulation {
    struct Figures {
        var successes = 0
        var refusals = 0
        /// Whether the breaker has opened; the breaker counts refusals only at the lowest limit.
        var hasOpenedBreaker = false
        var latencySum = 0
        /// The limit every 100 ms.
        var limits: [Int] = []
        let duration: Int

        var successesPerSecond: Double { Double(successes) * 1e6 / Double(duration) }
        var refusalsPerSuccess: Double { Double(refusals) / Double(max(1, successes)) }
        var meanLatency: Double { Double(latencySum) / Double(max(1, successes)) / 1000 }
        func limit(at time: Int) -> Int { limits[min(time / 100_000, limits.count - 1)] }
    }

    private let host: SimulatedHost
    private var generator: SeededGenerator
    private var ends = Heap<End>()
    private var line: [(number: Int, sent: Int)] = []
    private var firstInLine = 0
    private var working = 0
    private var inFlight = 0
    private var sentCount = 0

    private init(host: SimulatedHost, seed: UInt64) {
        self.host = host
        generator = SeededGenerator(seed: seed)
    }

    static func run(_ host: SimulatedHost, fixed limit: Int, for duration: Int, seed: UInt64) -> Figures {
        var simulation = Simulation(host: host, seed: seed)
        return simulation.run(for: duration, limit: { limit }, finished: { _, _, _, _ in })
    }

    static func run(
        _ host: SimulatedHost, learning limits: AdaptiveLimits, for duration: Int, seed: UInt64
    ) -> Figures {
        var simulation = Simulation(host: host, seed: seed)
        let start = ContinuousClock.now
        var state = HostLimit(limits)
        var breaker = HostBreaker(BreakerPolicy())
        var figures = simulation.run(
            for: duration, limit: { state.current },
            finished: { latency, succeeded, inFlight, time in
                let now = start + .microseconds(time)
                state.finished(
                    latency: .microseconds(latency), outcome: succeeded ? .succeeded : .overloaded, inFlight: inFlight,
                    now: now)
                // An open breaker stays open, because the simulation no longer asks it.
                guard breaker.phase == .closed, case .admit(let pass) = breaker.admits(now: now) else { return }
                if succeeded || state.isAtBottom { breaker.finished(pass, isFailure: !succeeded, now: now) }
            })
        figures.hasOpenedBreaker = breaker.phase != .closed
        return figures
    }

    private mutating func run(
        for duration: Int, limit: () -> Int, finished: (Int, Bool, Int, Int) -> Void
    ) -> Figures {
        var figures = Figures(duration: duration)
        while inFlight < limit() { send(at: 0) }
        while let end = ends.popFirst(), end.time < duration {
            let (time, latency) = (end.time, end.time - end.sent)
            while figures.limits.count * 100_000 <= time { figures.limits.append(limit()) }
            if end.succeeded {
                working -= 1
                figures.successes += 1
                figures.latencySum += latency
            } else {
                figures.refusals += 1
            }
            finished(latency, end.succeeded, inFlight, time)
            inFlight -= 1
            takeFromLine(at: time)
            while inFlight < limit() { send(at: time) }
        }
        return figures
    }

    private mutating func send(at time: Int) {
        inFlight += 1
        sentCount += 1
        let (isFree, isOut) = (working < host.workers(time), host.outage.contains(time))
        if !isOut, isFree, firstInLine == line.count { return work(sentCount, sent: time, at: time) }
        if !isOut, host.excess == .waits { return line.append((sentCount, time)) }
        ends.insert(End(time: time + host.refusalTime, succeeded: false, number: sentCount, sent: time))
    }

    private mutating func takeFromLine(at time: Int) {
        while firstInLine < line.count, working < host.workers(time) {
            work(line[firstInLine].number, sent: line[firstInLine].sent, at: time)
            firstInLine += 1
        }
    }

    private mutating func work(_ number: Int, sent: Int, at time: Int) {
        working += 1
        let serviceTime = host.serviceTime(time)
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
