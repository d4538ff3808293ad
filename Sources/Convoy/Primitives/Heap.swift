// A priority queue.

/// A binary heap with its least element first.
struct Heap<Element: Comparable> {
    private var elements: [Element] = []

    var first: Element? { elements.first }
    var count: Int { elements.count }

    /// - Complexity: O(*n* log *n*).
    mutating func removeAll(where isMeant: (Element) -> Bool) {
        // A sorted array is a heap.
        elements = elements.filter { !isMeant($0) }.sorted()
    }

    /// - Complexity: O(log *n*).
    mutating func insert(_ element: Element) {
        elements.append(element)
        var child = elements.count - 1
        while child > 0, elements[child] < elements[(child - 1) / 2] {
            elements.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// - Complexity: O(log *n*).
    mutating func popFirst() -> Element? {
        guard let first = elements.first, let last = elements.popLast() else { return nil }
        guard !elements.isEmpty else { return first }
        // The lesser child moves up until the heap's last element fits.
        var parent = 0
        while true {
            var child = 2 * parent + 1
            if child + 1 < elements.count, elements[child + 1] < elements[child] { child += 1 }
            guard child < elements.count, elements[child] < last else { break }
            elements[parent] = elements[child]
            parent = child
        }
        elements[parent] = last
        return first
    }
}
