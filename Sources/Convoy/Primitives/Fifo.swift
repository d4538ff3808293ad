// A queue in which adding and removing take constant time.

/// First in, first out; removed elements are released at once.
struct Fifo<Element> {
    private var elements: [Element?] = []
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { count == 0 }
    var last: Element? { isEmpty ? nil : elements[elements.count - 1] }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func replaceLast(with element: Element) { elements[elements.count - 1] = element }

    mutating func prepend(_ element: Element) {
        if head == 0 { return elements.insert(element, at: 0) }
        head -= 1
        elements[head] = element
    }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        defer {
            elements[head] = nil
            head += 1
            if isEmpty {
                elements.removeAll(keepingCapacity: head <= 256)
                head = 0
            } else if head > 256, head > count {
                elements.removeFirst(head)
                head = 0
            }
        }
        return elements[head]
    }
}

extension Fifo: Sendable where Element: Sendable {}
