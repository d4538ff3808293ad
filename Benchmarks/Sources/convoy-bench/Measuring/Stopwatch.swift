// Time, processor time and memory between two moments.
import Foundation

/// A stopwatch, which starts when it is made.
struct Stopwatch {
    /// The time, the processor time and the memory since the start.
    struct Reading {
        var seconds: Double
        /// The processor time of all threads, user and system.
        var cpuSeconds: Double
        var peakRSSBytes: Int?
        var peakRSSGrowthBytes: Int?
    }

    private let rssAtStart: Int?
    private let cpuAtStart: Double
    private let start: ContinuousClock.Instant

    init() {
        Memory.resetPeak()
        rssAtStart = Memory.residentBytes
        cpuAtStart = Self.cpuSeconds
        start = .now
    }

    /// The reading so far; the stopwatch keeps running.
    func read() -> Reading {
        let seconds = start.duration(to: .now) / .seconds(1)
        let cpu = Self.cpuSeconds - cpuAtStart
        let peak = Memory.peakBytes
        let growth = peak.flatMap { peak in rssAtStart.map { max(0, peak - $0) } }
        return Reading(seconds: seconds, cpuSeconds: cpu, peakRSSBytes: peak, peakRSSGrowthBytes: growth)
    }

    private static var cpuSeconds: Double { rusage.ofThisProcess?.cpuSeconds ?? 0 }
}
