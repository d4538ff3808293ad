// The lists of waiting operations, and the order in which their hosts are served.

// Operations that wait for the same thing, by priority, then by rank, then in the order of arrival. Linked lists through
// the records: an operation is in at most one of them, and leaves it in O(1). Used only under the manager's lock. The
// manager retains every operation in a list.
struct WaitQueue {
    private typealias Link = Unmanaged<AnyRequestOperation>

    private var lists = [(first: Link?, last: Link?)](repeating: (nil, nil), count: 15)
    /// The lists that have operations, as a bit set.
    private var occupied: UInt16 = 0
    private(set) var count = 0

    mutating func append(_ operation: AnyRequestOperation, line: Int) {
        let link = Unmanaged.passUnretained(operation)
        let last = lists[line].last
        (operation.record.line, operation.record.neighbours) = (Int8(line), (last, nil))
        if let last { last.takeUnretainedValue().record.neighbours.next = link } else { lists[line].first = link }
        lists[line].last = link
        occupied |= 1 << line
        count += 1
    }

    mutating func remove(_ operation: AnyRequestOperation) {
        let line = Int(operation.record.line)
        guard lists.indices.contains(line) else { return }
        let (previous, next) = operation.record.neighbours
        if let previous {
            previous.takeUnretainedValue().record.neighbours.next = next
        } else {
            lists[line].first = next
        }
        if let next {
            next.takeUnretainedValue().record.neighbours.previous = previous
        } else {
            lists[line].last = previous
        }
        if lists[line].first == nil { occupied &= ~(1 << line) }
        (operation.record.line, operation.record.neighbours) = (-1, (nil, nil))
        count -= 1
    }

    /// The first operation, or with `lifo` the newest of its priority, except among those that return.
    func first(_ prioritization: RequestPrioritization) -> AnyRequestOperation? {
        guard occupied != 0 else { return nil }
        let line = occupied.trailingZeroBitCount
        let isNewestFirst = prioritization == .lifo && line % 3 != OperationRecord.Rank.returning.rawValue
        return (isNewestFirst ? lists[line].last : lists[line].first)?.takeUnretainedValue()
    }
}

/// The turn of an operation: by priority and rank, then by the order of arrival.
struct Turn: Comparable {
    let line: Int8
    let order: UInt64

    static func < (left: Turn, right: Turn) -> Bool {
        left.line != right.line ? left.line < right.line : left.order < right.order
    }
}

/// The operations that wait for one host: those that have begun, or the new ones.
final class Line {
    unowned let host: Host
    // `@exclusivity(unchecked)` is safe, because no code that is called during a change accesses these properties.
    @exclusivity(unchecked) var queue = WaitQueue()
    /// The turn of its first operation, while it is among the ``Lines``.
    @exclusivity(unchecked) fileprivate(set) var turn = Turn(line: 0, order: 0)
    @exclusivity(unchecked) fileprivate var place = -1

    init(_ host: Host) { self.host = host }
}

/// The lines of the hosts that have a waiting operation and room for it: a binary heap, the best turn first.
struct Lines {
    private var lines: [Line] = []

    var first: Line? { lines.first }

    /// - Parameter turn: the turn of the line's first operation; nil if none may be served now.
    /// - Complexity: O(log *h*) for *h* hosts; O(1) if nothing has changed.
    mutating func update(_ line: Line, _ turn: Turn?) {
        guard let turn else {
            guard line.place >= 0, let last = lines.popLast() else { return }
            let place = line.place
            line.place = -1
            if last !== line { settle(last, at: place) }
            return
        }
        if line.place < 0 {
            line.turn = turn
            lines.append(line)
            settle(line, at: lines.count - 1)
        } else if line.turn != turn {
            line.turn = turn
            settle(line, at: line.place)
        }
    }

    private mutating func settle(_ line: Line, at start: Int) {
        var place = start
        while place > 0, line.turn < lines[(place - 1) / 2].turn {
            lines[place] = lines[(place - 1) / 2]
            lines[place].place = place
            place = (place - 1) / 2
        }
        while true {
            var child = 2 * place + 1
            if child + 1 < lines.count, lines[child + 1].turn < lines[child].turn { child += 1 }
            guard child < lines.count, lines[child].turn < line.turn else { break }
            lines[place] = lines[child]
            lines[place].place = place
            place = child
        }
        lines[place] = line
        line.place = place
    }
}
