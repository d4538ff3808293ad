/// The chain of dependent requests with the longest total running time.
struct CriticalPath: Equatable, Sendable {
    private(set) var blockers: [Int?]
    private(set) var places: [Int] = []
    private(set) var microseconds: Int64 = 0

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
        // Records in a cycle never become ready, so no chain contains them. No run writes a file with a cycle.
        var lengths = records.map(\.active)
        var previous = [Int?](repeating: nil, count: records.count)
        var ready = open.indices.filter { open[$0] == 0 }
        var last: Int?
        while let place = ready.popLast() {
            if lengths[place] > last.map({ lengths[$0] }) ?? -1 { last = place }
            for dependent in dependents[place] {
                let length = lengths[place] &+ records[dependent].active
                if previous[dependent] == nil || length > lengths[dependent] {
                    (lengths[dependent], previous[dependent]) = (length, place)
                }
                open[dependent] -= 1
                if open[dependent] == 0 { ready.append(dependent) }
            }
        }
        guard let last else { return }
        microseconds = lengths[last]
        places = sequence(first: last) { previous[$0] }.reversed()
    }

    private struct Key: Hashable {
        let run: Int
        let index: Int
    }
}
