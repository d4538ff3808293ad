// Finds the cycle of operations that a new dependency would close.
import Foundation

extension DependencyGraph {
    /// The members of the cycle that an edge would close, or nil.
    ///
    /// The search alternates between both ends and stops when either end is exhausted. It is therefore fast for common
    /// graphs: an operation without dependents, or a dependency without dependencies, cannot be on a cycle. A group
    /// does not list its members. So once the search from `dependency` has met a group, its exhaustion proves nothing.
    /// The search then continues until the other end is exhausted.
    static func cycle(
        closedBy operation: AnyRequestOperation, dependingOn dependency: AnyRequestOperation,
        _ met: inout [AnyRequestOperation]
    ) -> [AnyRequestOperation]? {
        // An operation without dependents closes no cycle.
        if operation.node?.dependents.isEmpty != false { return nil }
        var (down, up) = (Search(from: dependency), Search(from: operation))
        var middle: AnyRequestOperation?
        var seesAllBelow = true
        while middle == nil {
            let below = down.open.popLast()
            guard below != nil || !seesAllBelow, let above = up.open.popLast() else { break }
            if let below {
                if below.isGroup { seesAllBelow = false }
                let dependencies = (below.node?.dependencies ?? []).lazy.compactMap { $0 as? AnyRequestOperation }
                middle = down.visit(dependencies, from: below, until: up)
                if middle != nil { break }
            }
            let dependents = (above.node?.dependents ?? []).compactMap(\.operation)
            met += dependents
            middle = up.visit(dependents, from: above, until: down)
        }
        // The path leads from the new dependency down to the meeting point, then to the operation.
        return middle.map { down.way(to: $0).reversed() + up.way(to: $0).dropFirst() }
    }

    /// One of two searches: down from the new dependency, or up from the operation.
    ///
    /// It stores the operations that it has seen. Used under the graph's lock.
    struct Search {
        enum Direction { case dependencies, dependents }

        var open: [AnyRequestOperation]
        private(set) var reached: [AnyRequestOperation]
        /// Maps each operation that was reached to the operation from which it was reached; nil for the first.
        private var seen: [ObjectIdentifier: AnyRequestOperation?] = [:]

        init(from first: AnyRequestOperation) {
            (open, reached) = ([first], [first])
            seen.updateValue(nil, forKey: ObjectIdentifier(first))
        }

        /// Visits the neighbours of an operation; returns the first one that the other search has seen, or nil.
        mutating func visit(
            _ next: some Sequence<AnyRequestOperation>, from last: AnyRequestOperation, until other: Search? = nil
        ) -> AnyRequestOperation? {
            for operation in next where seen[ObjectIdentifier(operation)] == nil {
                seen[ObjectIdentifier(operation)] = last
                if other?.seen[ObjectIdentifier(operation)] != nil { return operation }
                open.append(operation)
                reached.append(operation)
            }
            return nil
        }

        mutating func run(_ direction: Direction) {
            while let last = open.popLast() {
                let next =
                    switch direction {
                    case .dependencies: (last.node?.dependencies ?? []).compactMap { $0 as? AnyRequestOperation }
                    case .dependents: (last.node?.dependents ?? []).compactMap(\.operation)
                    }
                _ = visit(next, from: last)
            }
        }

        func way(to operation: AnyRequestOperation) -> [AnyRequestOperation] {
            Array(sequence(first: operation) { seen[ObjectIdentifier($0)] ?? nil })
        }
    }
}
