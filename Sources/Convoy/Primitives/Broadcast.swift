// One source of values, several readers.

/// An asynchronous sequence of what happens, for any number of readers.
///
/// Each iterator gets what happens after it was made, and ends when the source does; one made after the end gets the last
/// value, if there was one. Of values that only tell a newer state, as progress, a slow reader gets the latest.
public struct Broadcast<Element: Sendable>: AsyncSequence, Sendable {
    let source: BroadcastSource<Element>
    var pace: BroadcastPace?

    /// Makes an iterator that reads from now on.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reader: source.makeReader(pace)) }

    /// Reads a broadcast.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let reader: BroadcastReader<Element>

        /// The next value; nil at the end, and when the task is cancelled.
        public mutating func next() async -> Element? { await reader.next() }
    }
}

/// How often a reader gets a value at most.
struct BroadcastPace: Sendable {
    let interval: Duration
    let clock: any RequestClock

    init(_ interval: Duration, _ clock: any RequestClock) {
        // A sum that overflows would trap: thirty years are for ever.
        self.interval = min(interval, .seconds(1_000_000_000))
        self.clock = clock
    }
}

/// The sending end.
///
/// Sends come one after the other: the caller sees to that.
final class BroadcastSource<Element: Sendable>: Sendable {
    private struct State {
        var readers: [BroadcastReader<Element>] = []
        var last: Element?
        var hasEnded = false
    }

    private let state = Locked(State())
    private let rules: BroadcastRules<Element>

    /// - Parameters:
    ///   - replaces: whether a value still waiting to be read is replaced by a new one.
    ///   - repeats: whether a value says the same as the one before it, and is left out.
    init(
        replaces: @escaping @Sendable (_ waiting: Element, _ new: Element) -> Bool,
        repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)? = nil
    ) {
        rules = BroadcastRules(replaces: replaces, repeats: repeats)
    }

    func send(_ element: Element) {
        let readers = state.withLock { state -> [BroadcastReader<Element>] in
            guard !state.hasEnded else { return [] }
            state.last = element
            return state.readers
        }
        for reader in readers { reader.push(element) }
    }

    /// Ends it, with a last value in the same step: a reader that comes meanwhile gets that value, too.
    func end(with element: Element? = nil) {
        let readers = state.withLock { state -> [BroadcastReader<Element>] in
            guard !state.hasEnded else { return [] }
            if let element { state.last = element }
            state.hasEnded = true
            defer { state.readers = [] }
            return state.readers
        }
        for reader in readers {
            if let element { reader.push(element) }
            reader.end()
        }
    }

    func makeReader(_ pace: BroadcastPace? = nil) -> BroadcastReader<Element> {
        let reader = BroadcastReader(rules, pace)
        let (last, hasEnded) = state.withLock { state in
            if !state.hasEnded { state.readers.append(reader) }
            return (state.last, state.hasEnded)
        }
        if hasEnded {
            if let last { reader.push(last) }
            reader.end()
        }
        return reader
    }
}

/// What becomes of a value that follows another.
struct BroadcastRules<Element: Sendable>: Sendable {
    let replaces: @Sendable (_ waiting: Element, _ new: Element) -> Bool
    let repeats: (@Sendable (_ last: Element, _ new: Element) -> Bool)?
}
