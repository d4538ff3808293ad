// The statistics of a page, in the form that its script reads.
import Convoy
import ConvoyHTTPFile

/// Writes the computed statistics of a page as JSON.
enum PageFigures {
    private static let slowestCount = 10
    /// The maximum number of changed requests of each kind in the page.
    ///
    /// Further changed requests are only counted.
    private static let pairLimit = 200

    /// The number of durations, their percentiles and the longest one; empty without durations.
    static func times(_ times: TimeFigures?) -> JSONValue {
        guard let times else { return [] }
        return .array(
            [Int64(times.count), times.median, times.ninety, times.ninetyNine, times.longest].map(JSONValue.integer))
    }

    static func histogram(_ histogram: TimeHistogram) -> JSONValue {
        [
            "edges": .array(histogram.edges.map(JSONValue.integer)), "logarithmic": .bool(histogram.isLogarithmic),
            "bars": .array(
                histogram.bars.map { bars in .array(bars.map { [JSONValue($0.count), JSONValue($0.failed)] }) }),
        ]
    }

    static func groups(_ groups: RequestGroups, by key: RequestGroups.Key) -> JSONValue {
        [
            "key": .string(key.rawValue), "count": JSONValue(groups.count),
            "rows": .array(
                groups.groups.map { group in
                    [
                        .string(group.name),
                        .array(
                            group.cells.map { cell in
                                [JSONValue(cell.count), JSONValue(cell.failed), times(TimeFigures(cell.times))]
                            }),
                    ]
                }),
        ]
    }

    /// The indices of the slowest requests, the slowest first.
    static func slowest(_ records: some Sequence<RequestRecord>) -> [Int] {
        records.enumerated().compactMap { place, record in record.time.map { (place: place, time: $0) } }
            .sorted { ($1.time, $0.place) < ($0.time, $1.place) }
            .prefix(slowestCount).map(\.place)
    }

    /// Writes the comparison of two reports as JSON.
    ///
    /// - Parameter offset: the index of the second report's first record.
    static func comparison(_ comparison: ReportComparison, offset: Int) -> JSONValue {
        func pairs(_ pairs: [ReportComparison.Pair]) -> JSONValue {
            .array(
                pairs.prefix(pairLimit).map {
                    [JSONValue($0.before), JSONValue($0.after + offset), .integer($0.difference ?? 0)]
                })
        }
        return [
            "pairs": JSONValue(comparison.pairCount), "onlyBefore": JSONValue(comparison.onlyBefore),
            "onlyAfter": JSONValue(comparison.onlyAfter),
            "brokenCount": JSONValue(comparison.broken.count), "broken": pairs(comparison.broken),
            "repairedCount": JSONValue(comparison.repaired.count), "repaired": pairs(comparison.repaired),
            "slowed": pairs(comparison.slowed),
        ]
    }
}
