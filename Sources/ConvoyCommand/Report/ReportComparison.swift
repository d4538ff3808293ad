// Requests match by name, method and URL; several equal requests match in order.
struct ReportComparison: Equatable, Sendable {
    struct Pair: Equatable, Sendable {
        let before: Int
        let after: Int
        let difference: Int64?
    }

    static let slowedLimit = 10

    private(set) var broken: [Pair] = []
    private(set) var repaired: [Pair] = []
    private(set) var pairCount = 0
    let onlyBefore: Int
    let onlyAfter: Int
    /// At most ``slowedLimit`` requests that succeeded in both reports and became slower, the largest difference first.
    let slowed: [Pair]

    init(_ before: [RequestRecord], _ after: [RequestRecord]) {
        var (places, counts) = ([Key: Int](), [Key: Int]())
        for (place, record) in before.enumerated() { places[Key(record, &counts)] = place }
        counts = [:]
        var slowed: [Pair] = []
        for (place, record) in after.enumerated() {
            guard let match = places[Key(record, &counts)] else { continue }
            let old = before[match]
            pairCount += 1
            let difference = record.time.flatMap { now in old.time.map { now - $0 } }
            let pair = Pair(before: match, after: place, difference: difference)
            switch (old.outcome, record.outcome) {
            case (.failed, .failed): break
            case (_, .failed): broken.append(pair)
            case (.failed, .succeeded), (.failed, .skipped): repaired.append(pair)
            case (.succeeded, .succeeded): if let difference, difference > 0 { slowed.append(pair) }
            default: break
            }
        }
        (onlyBefore, onlyAfter) = (before.count - pairCount, after.count - pairCount)
        slowed.sort { ($1.difference ?? 0, $0.after) < ($0.difference ?? 0, $1.after) }
        self.slowed = Array(slowed.prefix(Self.slowedLimit))
    }

    var text: String {
        let parts = [
            (broken.count, broken.count == 1 ? "fails now" : "fail now"),
            (repaired.count, repaired.count == 1 ? "fails no longer" : "fail no longer"),
            (onlyBefore, "only in the first"), (onlyAfter, "only in the second"),
        ]
        return Figures.count(pairCount, "request") + " in both"
            + parts.filter { $0.0 > 0 }.map { ", \($0) \($1)" }.joined()
    }

    private struct Key: Hashable {
        let identity: Int
        let method: String
        private var number = 0

        init(_ record: RequestRecord, _ counts: inout [Key: Int]) {
            (identity, method) = (record.identity, record.outcome == .unfinished ? "" : record.method)
            let count = (counts[self] ?? 0) + 1
            counts[self] = count
            number = count
        }
    }
}
