// One source of values, several readers.

/// An asynchronous sequence of events, for any number of readers.
///
/// Each iterator receives the events from its creation to the end of the source; one made later, the last value. If
/// each value replaces the one before, such as progress, a slow reader receives only the latest.
public struct Broadcast<Element: Sendable>: AsyncSequence, Sendable {
    let source: BroadcastSource<Element>
    var interval: Duration?

    /// Makes an iterator that reads events from now on.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reader: source.makeReader(every: interval)) }

    /// Reads a broadcast.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let reader: BroadcastReader<Element>

        /// The next value; nil at the end and when the task is cancelled.
        public mutating func next() async -> Element? { await reader.next() }
    }
}

/// One lock guards the values of all readers, so that a reader made during a call receives its value or its end.
final class BroadcastSource<Element: Sendable>: Sendable {
    fileprivate typealias Effect = (
        continuation: CheckedContinuation<Element?, Never>?, element: Element?, due: ContinuousClock.Instant?
    )

    fileprivate struct Reader: Sendable {
        let interval: Duration?
        var waiting = Fifo<Element>()
        var continuation: CheckedContinuation<Element?, Never>?
        var hasEnded = false
        /// The last value that was sent, stored only if repeated values are skipped.
        var last: Element?
        var due: ContinuousClock.Instant?
        var isTimerSet = false

        // With an interval, a value waits until it has passed since the last delivery, or until the end.
        mutating func give(_ now: ContinuousClock.Instant?) -> Effect {
            guard let continuation, !waiting.isEmpty || hasEnded else { return (nil, nil, nil) }
            if let now, let due, now < due, !hasEnded {
                defer { isTimerSet = true }
                return (nil, nil, isTimerSet ? nil : due)
            }
            self.continuation = nil
            if let interval, let now { due = now + interval }
            return (continuation, waiting.popFirst(), nil)
        }
    }

    private struct State {
        var readers: [Int: Reader] = [:]
        var readerCount = 0
        var last: Element?
        var lastNumber = 0
        var hasEnded = false
    }

    private let state = Locked(State())
    let clock: (any RequestClock)?
    private let replaces: @Sendable (_ waiting: Element, _ new: Element) -> Bool
    private let repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)?

    /// - Parameter clock: needed for readers with an interval. The functions run under a lock.
    init(
        clock: (any RequestClock)? = nil,
        replaces: @escaping @Sendable (_ waiting: Element, _ new: Element) -> Bool,
        repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)? = nil
    ) { (self.clock, self.replaces, self.repeats) = (clock, replaces, repeats) }

    /// - Parameter number: of concurrent calls, one with a lower number than the last has no effect; nil for no order.
    func send(_ element: Element, number: Int? = nil) { tell(element, number, isEnd: false) }

    func end(with element: Element? = nil, number: Int? = nil) { tell(element, number, isEnd: true) }

    private func tell(_ element: Element?, _ number: Int?, isEnd: Bool) {
        let now = clock?.now
        var effects = state.withLock { state -> [(id: Int, effect: Effect)] in
            guard !state.hasEnded, number ?? .max > state.lastNumber else { return [] }
            state.lastNumber = number ?? state.lastNumber
            state.last = element ?? state.last
            state.hasEnded = isEnd
            var effects: [(Int, Effect)] = []
            // `indices` would retain the dictionary, which would then be copied.
            var index = state.readers.startIndex
            while index != state.readers.endIndex {
                if let element { push(element, to: &state.readers.values[index]) }
                if isEnd { state.readers.values[index].hasEnded = true }
                effects.append((state.readers.keys[index], state.readers.values[index].give(now)))
                state.readers.formIndex(after: &index)
            }
            return effects
        }
        if effects.count > 1 { effects.sort { $0.id < $1.id } }
        for (id, effect) in effects { perform(effect, for: id) }
    }

    private func push(_ element: Element, to reader: inout Reader) {
        guard !reader.hasEnded else { return }
        if let repeats {
            if let last = reader.last, repeats(last, element) { return }
            reader.last = element
        }
        if let last = reader.waiting.last, replaces(last, element) {
            reader.waiting.replaceLast(with: element)
        } else {
            reader.waiting.append(element)
        }
    }

    func makeReader(every interval: Duration? = nil) -> BroadcastReader<Element> {
        let id = state.withLock { state in
            // The interval is limited to 1,000,000,000 seconds, because a moment plus a longer one could overflow.
            var reader = Reader(interval: interval.map { min($0, .seconds(1_000_000_000)) }, hasEnded: state.hasEnded)
            if state.hasEnded, let last = state.last { reader.waiting.append(last) }
            state.readerCount += 1
            state.readers[state.readerCount] = reader
            return state.readerCount
        }
        return BroadcastReader(self, id)
    }

    /// The unread values are released outside the lock.
    fileprivate func remove(_ id: Int) { _ = state.withLock { $0.readers.removeValue(forKey: id) } }

    /// `change` may return what happens instead of a delivery.
    fileprivate func change(_ id: Int, _ change: (inout Reader) -> Effect?) {
        let now = clock?.now
        let effect = state.withLock { state -> Effect in
            guard var reader = state.readers.removeValue(forKey: id) else { return (nil, nil, nil) }
            defer { state.readers[id] = reader }
            return change(&reader) ?? reader.give(now)
        }
        perform(effect, for: id)
    }

    private func perform(_ effect: Effect, for id: Int) {
        effect.continuation?.resume(returning: effect.element)
        guard let due = effect.due else { return }
        _ = clock?.wake(at: due) { [weak self] in
            self?.change(id) { reader in
                reader.isTimerSet = false
                return nil
            }
        }
    }
}

final class BroadcastReader<Element: Sendable>: Sendable {
    private let source: BroadcastSource<Element>
    private let id: Int

    fileprivate init(_ source: BroadcastSource<Element>, _ id: Int) { (self.source, self.id) = (source, id) }

    deinit { source.remove(id) }

    func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                source.change(id) { reader in
                    // A second waiter on one iterator gets nil at once, so that the first continuation is not leaked.
                    guard reader.continuation == nil else { return (continuation, nil, nil) }
                    reader.continuation = continuation
                    if Task.isCancelled { reader.hasEnded = true }
                    return nil
                }
            }
        } onCancel: {
            source.change(id) { reader in
                reader.hasEnded = true
                defer { reader.continuation = nil }
                return (reader.continuation, nil, nil)
            }
        }
    }
}
