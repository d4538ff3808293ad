import Foundation

struct TimeFigures: Equatable, Sendable {
    let count: Int
    let median: Int64
    let ninety: Int64
    let ninetyNine: Int64
    let longest: Int64

    // Each percentile is one of the times, by the nearest-rank method.
    init?(_ times: [Int64]) {
        let sorted = times.sorted()
        guard let longest = sorted.last else { return nil }
        func rank(_ percent: Int) -> Int64 { sorted[(sorted.count * percent + 99) / 100 - 1] }
        (count, median, ninety, ninetyNine) = (sorted.count, rank(50), rank(90), rank(99))
        self.longest = longest
    }

    var text: String {
        let parts = [(50, median), (90, ninety), (99, ninetyNine)].map { "\($0) % within \(Self.text($1))" }
        return "times: " + parts.joined(separator: ", ") + ", the longest \(Self.text(longest))"
    }

    static func text(_ microseconds: Int64) -> String { Figures.time(.microseconds(microseconds)) }
}

struct TimeHistogram: Equatable, Sendable {
    struct Bar: Equatable, Sendable {
        var count = 0
        var failed = 0
    }

    static let barCount = 40

    // Each bar includes its lower edge, and the last one also its upper edge.
    private(set) var edges: [Int64] = []
    // True if the longest duration is more than four times the shortest.
    private(set) var isLogarithmic = false
    private(set) var bars: [[Bar]] = []

    init(_ sides: [[RequestRecord]]) {
        let times = sides.joined().compactMap(\.time)
        guard let least = times.min(), let most = times.max() else { return }
        isLogarithmic = most > max(1, least) * 4
        // A logarithmic scale begins at ten microseconds or more. Shorter durations are in the first bar.
        let low = isLogarithmic ? Double(max(10, least)) : Double(least)
        let high = max(Double(most), low + 1)
        edges = (0...Self.barCount).map { place in
            let part = Double(place) / Double(Self.barCount)
            return Int64((isLogarithmic ? low * pow(high / low, part) : low + (high - low) * part).rounded())
        }
        bars = sides.map { records in
            var bars = [Bar](repeating: Bar(), count: Self.barCount)
            for record in records {
                guard let time = record.time else { continue }
                let place = place(of: time)
                bars[place].count += 1
                if record.outcome == .failed { bars[place].failed += 1 }
            }
            return bars
        }
    }

    // `isInBar` in the script of the page has the same rule.
    private func place(of time: Int64) -> Int { edges.prefix(Self.barCount).lastIndex { $0 <= time } ?? 0 }
}
