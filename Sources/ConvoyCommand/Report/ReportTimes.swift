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
