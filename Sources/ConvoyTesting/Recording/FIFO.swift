struct FIFO<Element: Sendable>: Sendable {
    private var elements: [Element?] = []
    private var start = 0

    var count: Int { elements.count - start }
    var all: [Element] { elements[start...].compactMap(\.self) }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func putBack(_ element: Element) {
        if start > 0 {
            start -= 1
            elements[start] = element
        } else {
            elements.insert(element, at: 0)
        }
    }

    mutating func popFirst() -> Element? {
        guard start < elements.count else { return nil }
        let element = elements[start]
        elements[start] = nil
        start += 1
        // When more than half of the array is unused, moving the rest costs no more than the previous pops.
        if start * 2 > elements.count {
            elements.removeFirst(start)
            start = 0
        }
        return element
    }
}
