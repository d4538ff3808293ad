// One reader of a broadcast.

/// The receiving side of a broadcast, for one iterator.
final class BroadcastReader<Element: Sendable>: Sendable {
    private struct State {
        var waiting: [Element] = []
        var next = 0
        var continuation: CheckedContinuation<Element?, Never>?
        var hasEnded = false
        /// The last value that was sent, stored only if repeated values are skipped.
        var last: Element?
        /// The time before which no value is delivered.
        var due: ContinuousClock.Instant?
        var isTimerSet = false

        var isEmpty: Bool { next == waiting.count }

        mutating func take() -> Element? {
            guard !isEmpty else { return nil }
            defer {
                if isEmpty {
                    waiting.removeAll(keepingCapacity: true)
                    next = 0
                }
            }
            next += 1
            return waiting[next - 1]
        }
    }

    private let rules: BroadcastRules<Element>
    private let pace: BroadcastPace?
    private let state = Locked(State())

    init(_ rules: BroadcastRules<Element>, _ pace: BroadcastPace?) { (self.rules, self.pace) = (rules, pace) }

    func push(_ element: Element) {
        state.withLock { state in
            guard !state.hasEnded else { return }
            if let repeats = rules.repeats {
                if let last = state.last, repeats(last, element) { return }
                state.last = element
            }
            if !state.isEmpty, let last = state.waiting.last, rules.replaces(last, element) {
                state.waiting[state.waiting.count - 1] = element
            } else {
                state.waiting.append(element)
            }
        }
        give()
    }

    /// Ends the sequence after the unread values.
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
                    // A second waiter on one iterator is a misuse. The second waiter gets nil at once, so that the
                    // first continuation is not leaked.
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

    private enum Step: Sendable {
        case nothing
        case resume(CheckedContinuation<Element?, Never>, Element?)
        case wait(until: ContinuousClock.Instant)
    }

    /// Delivers the next value or the end to the waiting iterator.
    ///
    /// If the reader has a pace, a value waits until the pace's interval has passed since the last delivery. After the
    /// end of the broadcast, no value waits.
    private func give() {
        let now = pace?.clock.now
        let step = state.withLock { state -> Step in
            guard let continuation = state.continuation, !state.isEmpty || state.hasEnded else { return .nothing }
            if let now, let due = state.due, now < due, !state.hasEnded {
                guard !state.isTimerSet else { return .nothing }
                state.isTimerSet = true
                return .wait(until: due)
            }
            state.continuation = nil
            if let pace, let now { state.due = now + pace.interval }
            return .resume(continuation, state.take())
        }
        switch step {
        case .nothing: break
        case .resume(let continuation, let element): continuation.resume(returning: element)
        case .wait(let due):
            _ = pace?.clock.wake(at: due) { [weak self] in
                self?.state.withLock { $0.isTimerSet = false }
                self?.give()
            }
        }
    }
}
