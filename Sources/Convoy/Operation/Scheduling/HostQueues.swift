// Decides which operation gets the next slot, and counts the slots. A value, without lock.
import Foundation

// Within a priority the order is first in, first out (or last in, first out), over all hosts. Operations that return
// for another attempt precede the new ones. A host at its limit or on hold is skipped, so that it blocks no other
// host. Every move costs O(1), plus O(log *h*) for *h* hosts with waiting operations.
//
// The slot of an operation that has not begun does not count against operations that have begun. Otherwise a deadlock
// is possible: A waits for a retry, and B has the only slot, but the operation queue starts B only after A. So A may
// use that slot. B waits for a slot again when it begins (``mayBegin(_:limit:)``).
struct HostQueues {
    let limits: HostLimits
    let prioritization: RequestPrioritization
    var hosts: [String: Host] = [:]
    /// Two heaps, because either kind may have to be skipped.
    private var lines = (begun: Lines(), new: Lines())
    private var lastOrder: UInt64 = 0
    private(set) var running = 0
    private(set) var unstarted = 0

    /// When an operation last got a slot; ``release(_:isUnsent:)`` uses it as the current time.
    private var lastLook: ContinuousClock.Instant?
    var pacer: RequestPacer?
    var holds = Holds()
    /// New holds with a known end, for which the scheduler sets timers.
    var newHolds: [NewHold] = []

    struct NewHold: Sendable {
        let host: String?
        let until: ContinuousClock.Instant
    }

    init(limits: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil) {
        (self.limits, self.prioritization) = (limits, prioritization)
        pacer = rate.map { RequestPacer($0) }
    }

    /// Makes an operation wait for a slot.
    mutating func join(_ operation: AnyRequestOperation) {
        operation.record.phase = .waiting(.slot)
        let host = makeHost(operation.record.nextHost)
        operation.record.host = host
        append(operation, to: &(operation.record.rank == .new ? host.new : host.begun).queue)
        hostChanged(host)
    }

    mutating func append(_ operation: AnyRequestOperation, to queue: inout WaitQueue) {
        lastOrder += 1
        operation.record.order = lastOrder
        let rank = operation.record.rank
        queue.append(operation, line: 3 * operation.record.priority.priorityIndex + rank.rawValue)
    }

    /// Gives a slot to the operation that is next, and returns it.
    mutating func takeNext(limit: Int, takesNew: Bool = true, now: ContinuousClock.Instant) -> AnyRequestOperation? {
        while true {
            let begun = running - unstarted < limit ? lines.begun.first : nil
            let new = running < limit && takesNew ? lines.new.first : nil
            guard begun != nil || new != nil, pacer == nil || !isPaced(now) else { return nil }
            let isNew = if let begun, let new { new.turn < begun.turn } else { begun == nil }
            guard let line = isNew ? new : begun, let operation = line.queue.first(prioritization) else { return nil }
            let host = line.host
            lastLook = now
            if limits.rate != nil || limits.breaker != nil {
                let (isAdmitted, pass) = host.admits(now: now)
                if let pass { operation.record.pass = pass }
                guard isAdmitted else {
                    noteHold(of: host)
                    hostChanged(host)
                    continue
                }
            }
            line.queue.remove(operation)
            operation.record.hasSlot = true
            host.running += 1
            running += 1
            if isNew {
                host.unstarted += 1
                unstarted += 1
            }
            if pacer != nil || limits.rate != nil { takeToken(operation, at: host, now) }
            hostChanged(host)
            return operation
        }
    }

    /// An operation with a slot begins: its slot counts from now on.
    mutating func began(_ operation: AnyRequestOperation) {
        guard let host = operation.record.host else { return }
        host.unstarted -= 1
        unstarted -= 1
        hostChanged(host)
    }

    func mayBegin(_ operation: AnyRequestOperation, limit: Int) -> Bool {
        guard let host = operation.record.host else { return false }
        return host.mayBegin(operation.record.pass) && running - unstarted <= limit
            && host.running - host.unstarted <= host.currentLimit
    }

    mutating func record(_ sample: HostSample, of operation: AnyRequestOperation, now: ContinuousClock.Instant) {
        guard operation.record.hasSlot, let host = operation.record.host else { return }
        host.record(sample, pass: operation.record.pass, now: now)
        operation.record.pass = nil
        noteHold(of: host)
        hostChanged(host)
    }

    // Takes the slot of an operation, or its place in the queue of its host. With `isUnsent`, the operation has begun
    // but sent nothing since it got the slot.
    mutating func release(_ operation: AnyRequestOperation, isUnsent: Bool = false) {
        guard let host = operation.record.host else { return }
        operation.record.host = nil
        if operation.record.hasSlot {
            let hasBegun = operation.record.hasBegun
            operation.record.hasSlot = false
            if operation.record.token != nil { leaveToken(operation, at: host, isUnsent: isUnsent || !hasBegun) }
            running -= 1
            host.running -= 1
            if !hasBegun {
                unstarted -= 1
                host.unstarted -= 1
            }
            // The attempt ended without a result for its host: the request was cancelled or never sent.
            if let pass = operation.record.pass, let lastLook {
                host.giveBack(pass, now: lastLook)
                operation.record.pass = nil
            }
        } else {
            host.line(of: operation).queue.remove(operation)
        }
        hostChanged(host)
    }

    // Afterwards, a host with room and waiting operations is among the lines. A host for which nothing waits may be
    // removed, if many hosts are stored.
    private mutating func hostChanged(_ host: Host) {
        lines.begun.update(host.begun, host.turn(host.begun))
        lines.new.update(host.new, host.turn(host.new))
        guard host.waiting == 0, hosts.count > 64 else { return }
        // The host may be used again, and its learned limits are useful. But only a limited number of them is kept.
        let isKept = !host.isIdle || host.hasLearned && hosts.count <= 1_024
        if !isKept, hosts[host.name] === host { hosts[host.name] = nil }
    }

    private mutating func makeHost(_ name: String) -> Host {
        if let host = hosts[name] { return host }
        let host = Host(name, limits, prioritization)
        hosts[name] = host
        return host
    }
}

extension HostQueues {
    mutating func hold(_ name: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) {
        let host = makeHost(name)
        if let held = host.holds.end(of: .asked), held >= instant { return }
        host.holds.set(.asked, until: instant)
        host.reason = reason
        noteHold(of: host)
        hostChanged(host)
    }

    /// Ends the expired holds of one host or, if the name is nil, those that apply to every host.
    mutating func lift(_ name: String?, now: ContinuousClock.Instant) {
        guard let name else { return holds.lift(now) }
        guard let host = hosts[name] else { return }
        host.holds.lift(now)
        if !host.holds.has(.asked) { host.reason = nil }
        noteHold(of: host)
        hostChanged(host)
    }

    mutating func takeNewHolds() -> [NewHold] {
        defer { newHolds = [] }
        return newHolds
    }

    mutating func noteHold(of host: Host) {
        if let until = host.holds.takeTimer() { newHolds.append(NewHold(host: host.name, until: until)) }
    }

    /// Whether the manager's rate limit is used up; if so, all hosts are put on hold until the next token.
    mutating func isPaced(_ now: ContinuousClock.Instant) -> Bool {
        guard let due = pacer?.due(after: now) else { return false }
        holds.set(.rate, until: due)
        if let until = holds.takeTimer() { newHolds.append(NewHold(host: nil, until: until)) }
        return true
    }

    private mutating func takeToken(_ operation: AnyRequestOperation, at host: Host, _ now: ContinuousClock.Instant) {
        // The moment is rounded, so that the record and the rate limits store equal values, which are compared later.
        let taken = CompactInstant(now)
        operation.record.token = taken
        pacer?.take(now: taken.instant)
        host.pacer?.take(now: taken.instant)
    }

    private mutating func leaveToken(_ operation: AnyRequestOperation, at host: Host, isUnsent: Bool) {
        guard let takenAt = operation.record.token?.instant else { return }
        operation.record.token = nil
        guard isUnsent else { return }
        pacer?.giveBack(takenAt: takenAt)
        host.pacer?.giveBack(takenAt: takenAt)
        host.holds.end(.rate)
    }

    /// Why the requests to a host cannot be sent before a deadline; nil if no reason is known.
    func holdWords(
        of host: String, past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> String? {
        if let words = hosts[host]?.holdWords(past: deadline, now: now) { return words }
        return pacer?.words(past: deadline, now: now).map { "its manager sends \($0)" }
    }

    func holdWords(of host: String, now: ContinuousClock.Instant) -> String? {
        if let words = hosts[host]?.holdWords(now: now) { return words }
        guard let rate = pacer?.rate, let due = pacer?.due(after: now) else { return nil }
        return "its turn: the manager sends at most \(rate.words), the next in \(now.duration(to: due).words)"
    }
}

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
