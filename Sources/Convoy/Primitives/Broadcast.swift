// One source of values, several readers.

/// An asynchronous sequence of events, for any number of readers.
///
/// Each iterator receives the events from its creation to the end of the source; one made later, the last value. If
/// each value replaces the one before, such as progress, a slow reader receives only the latest.
public struct Broadcast<Element: Sendable>: AsyncSequence, Sendable {
    let source: BroadcastSource<Element>
    var pace: BroadcastPace?

    /// Makes an iterator that reads events from now on.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reader: source.makeReader(pace)) }

    /// Reads a broadcast.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let reader: BroadcastReader<Element>

        /// The next value; nil at the end and when the task is cancelled.
        public mutating func next() async -> Element? { await reader.next() }
    }
}

struct BroadcastPace: Sendable {
    let interval: Duration
    let clock: any RequestClock

    init(_ interval: Duration, _ clock: any RequestClock) {
        // The interval is limited to 1,000,000,000 seconds. With a longer one, a moment plus the interval could
        // overflow.
        self.interval = min(interval, .seconds(1_000_000_000))
        self.clock = clock
    }
}

/// The caller must not send concurrently.
final class BroadcastSource<Element: Sendable>: Sendable {
    private struct WeakReader {
        weak var reader: BroadcastReader<Element>?
    }

    private struct State {
        var readers: [WeakReader] = []
        /// When `readers` has this many entries, `add` removes those of released readers.
        var sweepCount = 16
        var last: Element?
        var hasEnded = false

        // The caller releases the returned references outside the lock, because any of them may be the last.
        mutating func add(_ reader: BroadcastReader<Element>) -> [BroadcastReader<Element>] {
            defer { readers.append(WeakReader(reader: reader)) }
            guard readers.count >= sweepCount else { return [] }
            let live = readers.compactMap(\.reader)
            readers = live.map { WeakReader(reader: $0) }
            sweepCount = max(16, 2 * live.count)
            return live
        }
    }

    private let state = Locked(State())
    let replaces: @Sendable (_ waiting: Element, _ new: Element) -> Bool
    let repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)?

    init(
        replaces: @escaping @Sendable (_ waiting: Element, _ new: Element) -> Bool,
        repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)? = nil
    ) { (self.replaces, self.repeats) = (replaces, repeats) }

    func send(_ element: Element) { tell(element, isEnd: false) }

    func end(with element: Element? = nil) { tell(element, isEnd: true) }

    /// Value and end are stored in one step, so that a reader made during the call receives the value too.
    private func tell(_ element: Element?, isEnd: Bool) {
        let readers = state.withLock { state -> [BroadcastReader<Element>] in
            guard !state.hasEnded else { return [] }
            state.last = element ?? state.last
            state.hasEnded = isEnd
            defer { if isEnd { state.readers = [] } }
            return state.readers.compactMap(\.reader)
        }
        for reader in readers {
            if let element { reader.push(element) }
            if isEnd { reader.end() }
        }
    }

    func makeReader(_ pace: BroadcastPace? = nil) -> BroadcastReader<Element> {
        let reader = BroadcastReader(self, pace)
        let (last, hasEnded, others) = state.withLock { state in
            (state.last, state.hasEnded, state.hasEnded ? [] : state.add(reader))
        }
        withExtendedLifetime(others) {}
        if hasEnded {
            if let last { reader.push(last) }
            reader.end()
        }
        return reader
    }
}

final class BroadcastReader<Element: Sendable>: Sendable {
    private struct State {
        var waiting = Fifo<Element>()
        var continuation: CheckedContinuation<Element?, Never>?
        var hasEnded = false
        /// The last value that was sent, stored only if repeated values are skipped.
        var last: Element?
        var due: ContinuousClock.Instant?
        var isTimerSet = false
    }

    private let source: BroadcastSource<Element>
    private let pace: BroadcastPace?
    private let state = Locked(State())

    init(_ source: BroadcastSource<Element>, _ pace: BroadcastPace?) { (self.source, self.pace) = (source, pace) }

    func push(_ element: Element) {
        state.withLock { state in
            guard !state.hasEnded else { return }
            if let repeats = source.repeats {
                if let last = state.last, repeats(last, element) { return }
                state.last = element
            }
            if let last = state.waiting.last, source.replaces(last, element) {
                state.waiting.replaceLast(with: element)
            } else {
                state.waiting.append(element)
            }
        }
        give()
    }

    func end() {
        state.withLock { $0.hasEnded = true }
        give()
    }

    private func cancel() {
        let continuation = state.withLock { state in
            state.hasEnded = true
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(returning: nil)
    }

    func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isMisused = state.withLock { state in
                    // A second waiter on one iterator gets nil at once, so that the first continuation is not leaked.
                    guard state.continuation == nil else { return true }
                    state.continuation = continuation
                    if Task.isCancelled { state.hasEnded = true }
                    return false
                }
                if isMisused { continuation.resume(returning: nil) } else { give() }
            }
        } onCancel: {
            cancel()
        }
    }

    // With a pace, a value waits until the interval has passed since the last delivery, or until the end.
    private func give() {
        let now = pace?.clock.now
        let (continuation, element, due) = state.withLock {
            state -> (CheckedContinuation<Element?, Never>?, Element?, ContinuousClock.Instant?) in
            guard let continuation = state.continuation, !state.waiting.isEmpty || state.hasEnded else {
                return (nil, nil, nil)
            }
            if let now, let due = state.due, now < due, !state.hasEnded {
                defer { state.isTimerSet = true }
                return (nil, nil, state.isTimerSet ? nil : due)
            }
            state.continuation = nil
            if let pace, let now { state.due = now + pace.interval }
            return (continuation, state.waiting.popFirst(), nil)
        }
        continuation?.resume(returning: element)
        guard let due else { return }
        _ = pace?.clock.wake(at: due) { [weak self] in
            self?.state.withLock { $0.isTimerSet = false }
            self?.give()
        }
    }
}
