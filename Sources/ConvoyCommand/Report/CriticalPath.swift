// What each request waited for, and the chain that the run could not be shorter than.

/// The graph of a report's requests; a value.
struct CriticalPath: Equatable, Sendable {
    /// For each record, which of those it waited for ended last: its place among the records.
    private(set) var blockers: [Int?]
    /// The places of the longest chain's records, the first first; empty where nothing waited for another.
    private(set) var places: [Int] = []
    /// How long they were under way together, in microseconds.
    private(set) var microseconds: Int64 = 0

    /// - Complexity: O(*n* + *e*) for *n* records and *e* times that one waited for another.
    init(_ records: [RequestRecord]) {
        var placeOf: [Key: Int] = [:]
        for (place, record) in records.enumerated() {
            if let index = record.index { placeOf[Key(run: record.run, index: index)] = place }
        }
        let before = records.map { record in
            record.after.compactMap { placeOf[Key(run: record.run, index: $0)] }
        }
        blockers = before.map { $0.max { (records[$0].ended ?? 0) < (records[$1].ended ?? 0) } }
        guard blockers.contains(where: { $0 != nil }) else { return }
        var dependents = [[Int]](repeating: [], count: records.count)
        for (place, others) in before.enumerated() { for other in others { dependents[other].append(place) } }
        var open = before.map(\.count)
        // The longest chain that ends at each, and what comes before it there. Those in a cycle, which only a file that
        // was not written by a run can have, are never ready, and in no chain.
        var lengths = records.map(\.active)
        var previous = [Int?](repeating: nil, count: records.count)
        var ready = open.indices.filter { open[$0] == 0 }
        var last: Int?
        while let place = ready.popLast() {
            if lengths[place] > last.map({ lengths[$0] }) ?? -1 { last = place }
            for dependent in dependents[place] {
                let length = lengths[place].addingReportingOverflow(records[dependent].active).partialValue
                if previous[dependent] == nil || length > lengths[dependent] {
                    (lengths[dependent], previous[dependent]) = (length, place)
                }
                open[dependent] -= 1
                if open[dependent] == 0 { ready.append(dependent) }
            }
        }
        guard let last else { return }
        microseconds = lengths[last]
        var next: Int? = last
        while let place = next {
            places.append(place)
            next = previous[place]
        }
        places.reverse()
    }

    private struct Key: Hashable {
        let run: Int
        let index: Int
    }
}
