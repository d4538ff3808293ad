// JSONPath (RFC 9535): names, indices, slices, wildcards and descendants, but no filters.
import Convoy

/// A query into a JSON value.
package struct JSONPath: Hashable, Sendable {
    /// Selects children of a node.
    package enum Selector: Hashable, Sendable {
        case name(String)
        case index(Int)
        case slice(start: Int?, end: Int?, step: Int)
        case wildcard
    }

    package struct Segment: Hashable, Sendable {
        package var selectors: [Selector]
        /// Whether the segment applies to all descendants.
        package var isDescendant: Bool
    }

    /// Why a text is not a JSONPath.
    package struct Defect: Error, Equatable {
        package var what: String
        package var advice: String
    }

    package private(set) var segments: [Segment]

    package init(segments: [Segment]) { self.segments = segments }

    package init(_ text: String) throws(Defect) {
        var reader = JSONPathReader(text)
        segments = try reader.read()
    }

    /// This path, extended by the names of nested members.
    func appending(names: [String]) -> JSONPath {
        JSONPath(segments: segments + names.map { Segment(selectors: [Self.selector(named: $0)], isDescendant: false) })
    }

    private static func selector(named name: String) -> Selector { .name(name) }
}

extension JSONPath {
    /// The nodes that the path selects, at most `limit`.
    ///
    /// A path with several `..` selects a node once for each way to reach it, which may be very often. A segment that
    /// has visited a million nodes skips the other nodes.
    package func nodes(in root: JSONValue, atMost limit: Int = .max) -> [JSONValue] {
        var nodes = [root]
        for segment in segments {
            var (next, count) = ([JSONValue](), 0)
            for node in nodes {
                let parents = segment.isDescendant ? node.descendants : [node]
                for parent in parents { for selector in segment.selectors { next += parent.children(selector) } }
                count += parents.count
                if count > 1_000_000 { break }
            }
            nodes = next
        }
        return Array(nodes.prefix(limit))
    }
}

extension JSONValue {
    /// The value and all nested values, parents first.
    fileprivate var descendants: [JSONValue] {
        var (all, open) = ([JSONValue](), [self])
        while let value = open.popLast() {
            all.append(value)
            switch value {
            case .array(let elements): open += elements.reversed()
            case .object(let members): open += members.reversed().map(\.value)
            default: break
            }
        }
        return all
    }

    fileprivate func children(_ selector: JSONPath.Selector) -> [JSONValue] {
        switch (self, selector) {
        case (.object(let members), .name(let name)):
            return members.last { $0.name == name }.map { [$0.value] } ?? []
        case (.object(let members), .wildcard): return members.map(\.value)
        case (.array(let elements), .wildcard): return elements
        case (.array(let elements), .index(let index)):
            let place = index < 0 ? elements.count + index : index
            return elements.indices.contains(place) ? [elements[place]] : []
        case (.array(let elements), .slice(let start, let end, let step)):
            return Self.places(start, end, step, elements.count).map { elements[$0] }
        default: return []
        }
    }

    /// The indices that a slice selects (RFC 9535, section 2.3.4.2.2).
    private static func places(_ start: Int?, _ end: Int?, _ step: Int, _ count: Int) -> [Int] {
        guard step != 0 else { return [] }
        func normalized(_ index: Int) -> Int { index >= 0 ? index : count + index }
        if step > 0 {
            let lower = min(max(normalized(start ?? 0), 0), count)
            let upper = min(max(normalized(end ?? count), 0), count)
            return Array(stride(from: lower, to: upper, by: step))
        }
        let upper = min(max(normalized(start ?? count - 1), -1), count - 1)
        let lower = min(max(end.map(normalized) ?? -1, -1), count - 1)
        return Array(stride(from: upper, to: lower, by: step))
    }
}
