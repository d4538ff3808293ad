// One source of values, several readers.

/// An asynchronous sequence of what happens, for any number of readers.
///
/// Each iterator gets what happens after it was made, and ends when the source does; one made after the end gets the last
/// value, if there was one. Of values that only tell a newer state, as progress, a slow reader gets the latest.
public struct Broadcast<Element: Sendable>: AsyncSequence, Sendable {
    let source: BroadcastSource<Element>

    /// Makes an iterator that reads from now on.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reader: source.makeReader()) }

    /// Reads a broadcast.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let reader: BroadcastReader<Element>

        /// The next value; nil at the end, and when the task is cancelled.
        public mutating func next() async -> Element? { await reader.next() }
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
    private let replaces: @Sendable (_ waiting: Element, _ new: Element) -> Bool

    /// - Parameter replaces: whether a value still waiting to be read is replaced by a new one.
    init(replaces: @escaping @Sendable (_ waiting: Element, _ new: Element) -> Bool) { self.replaces = replaces }

    func send(_ element: Element) {
        let readers = state.withLock { state -> [BroadcastReader<Element>] in
            guard !state.hasEnded else { return [] }
            state.last = element
            return state.readers
        }
        for reader in readers { reader.push(element, replaces: replaces) }
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
            if let element { reader.push(element, replaces: replaces) }
            reader.end()
        }
    }

    func makeReader() -> BroadcastReader<Element> {
        let reader = BroadcastReader<Element>()
        let (last, hasEnded) = state.withLock { state in
            if !state.hasEnded { state.readers.append(reader) }
            return (state.last, state.hasEnded)
        }
        if hasEnded {
            if let last { reader.push(last, replaces: replaces) }
            reader.end()
        }
        return reader
    }
}

/// The receiving end of one iterator.
final class BroadcastReader<Element: Sendable>: Sendable {
    private struct State {
        var waiting: [Element] = []
        var next = 0
        var continuation: CheckedContinuation<Element?, Never>?
        var hasEnded = false
    }

    private let state = Locked(State())

    func push(_ element: Element, replaces: (Element, Element) -> Bool) {
        let continuation = state.withLock { state -> CheckedContinuation<Element?, Never>? in
            if let continuation = state.continuation {
                state.continuation = nil
                return continuation
            }
            guard !state.hasEnded else { return nil }
            if state.next < state.waiting.count, let last = state.waiting.last, replaces(last, element) {
                state.waiting[state.waiting.count - 1] = element
            } else {
                state.waiting.append(element)
            }
            return nil
        }
        continuation?.resume(returning: element)
    }

    func end() {
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
                let ready: Element?? = state.withLock { state in
                    if state.next < state.waiting.count {
                        let element = state.waiting[state.next]
                        state.next += 1
                        if state.next == state.waiting.count { (state.waiting, state.next) = ([], 0) }
                        return .some(element)
                    }
                    // A second waiter on one iterator is a misuse; it ends at once instead of leaking the first.
                    if state.hasEnded || state.continuation != nil || Task.isCancelled { return .some(nil) }
                    state.continuation = continuation
                    return nil
                }
                if let ready { continuation.resume(returning: ready) }
            }
        } onCancel: {
            end()
        }
    }
}
