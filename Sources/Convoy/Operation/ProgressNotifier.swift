// How progress gets from the transport's thread to a handler of the caller's.
import Foundation

/// Tells one handler how far an operation is: one call at a time, no count twice, and none sooner than asked for.
final class ProgressNotifier: Sendable {
    private struct State {
        /// A call is on its way, or a timer is set for it.
        var isWaiting = false
        /// What was told last.
        var told = TransferProgress()
        /// Before which nothing is told.
        var due: ContinuousClock.Instant?
        var timer: ClockTimer?
        var (uploadRate, downloadRate) = (RateMeter(), RateMeter())
    }

    private let place: CallbackPlace
    private let interval: Duration?
    private let clock: any RequestClock
    private let handler: @Sendable (TransferProgress) -> Void
    private let state = Locked(State())

    init(
        _ place: CallbackPlace, every interval: Duration?, clock: any RequestClock,
        _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) {
        // A sum that overflows would trap: thirty years are for ever.
        self.interval = interval.map { min($0, .seconds(1_000_000_000)) }
        (self.place, self.clock, self.handler) = (place, clock, handler)
    }

    /// Bytes have moved.
    ///
    /// - Thread: the transport's.
    func moved(_ operation: AnyRequestOperation) {
        let now = interval == nil ? nil : clock.now
        let (isFirst, due) = state.withLock { state -> (Bool, ContinuousClock.Instant?) in
            defer { state.isWaiting = true }
            guard let now, let due = state.due, due > now else { return (!state.isWaiting, nil) }
            return (!state.isWaiting, due)
        }
        guard isFirst else { return }
        guard let due else { return call(operation) }
        let timer = clock.wake(at: due) { [weak self, weak operation] in
            if let self, let operation { call(operation) }
        }
        state.withLock { $0.timer = timer }
    }

    /// What tells the last counts of a success, however soon that is after those before.
    func lastCall(_ progress: TransferProgress) -> FinishHandler {
        FinishHandler(place: place) { _ in self.tell(progress) }
    }

    /// Nothing follows: a timer is not waited for.
    func stop() {
        let timer = state.withLock { state in
            defer { state.timer = nil }
            return state.timer
        }
        timer?.cancel()
    }

    private func call(_ operation: AnyRequestOperation) {
        operation.run(at: place) { [weak operation] in
            self.state.withLock { ($0.isWaiting, $0.timer) = (false, nil) }
            if let progress = operation?.progress(at: self.place) { self.tell(progress) }
        }
    }

    private func tell(_ progress: TransferProgress) {
        let now = clock.now
        let measured = state.withLock { state -> TransferProgress? in
            guard progress != state.told else { return nil }
            state.told = progress
            state.due = interval.map { now + $0 }
            var measured = progress
            measured.upload.measure(with: &state.uploadRate, at: now)
            measured.download.measure(with: &state.downloadRate, at: now)
            return measured
        }
        if let measured { handler(measured) }
    }
}

extension AnyRequestOperation {
    /// Adds a handler for byte progress.
    ///
    /// At most one call is waiting: a slow handler is not flooded, it gets the latest count. On a serial place calls come one
    /// after the other; on a concurrent queue a call may begin before the one before it has returned. The same counts are
    /// not told twice in a row. After a failure none comes once the outcome has been delivered; of a success the last counts are
    /// always told, sent to their place before the handlers of the outcome are. It is told what changes from now on: of what
    /// had come before, ask ``progress``.
    ///
    /// `await response()` returns behind the last call on the default place; one that is asked for elsewhere, on `.main` say,
    /// has been sent there and may still be waiting.
    ///
    /// ```swift
    /// operation.onProgress(every: .milliseconds(250)) {
    ///     print($0.download.bytesPerSecond ?? 0)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - delivery: where to call it; as for finish handlers by default.
    ///   - interval: how much time there is at least between two calls, on ``RequestManager/Configuration/clock``; nil, the
    ///     default, or zero for as soon as the call before has returned. The last counts of a success do not wait for it.
    ///   - handler: receives the counts, with the bytes a second of each direction.
    @discardableResult
    public final func onProgress(
        on delivery: Delivery? = nil, every interval: Duration? = nil,
        _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) -> Self {
        notifyProgress(at: CallbackPlace(delivery ?? context.callbacks), every: interval, handler)
        return self
    }

    /// The same, at a place that is known.
    func notifyProgress(
        at place: CallbackPlace, every interval: Duration? = nil,
        _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) {
        let notifier = ProgressNotifier(place, every: interval, clock: context.clock, handler)
        state.withLock { state in
            // Nothing follows the outcome, and the closure would never be released.
            guard !state.machine.delivery.hasBegun else { return }
            state.observing { $0.progress.notifiers.append(notifier) }
        }
    }

    /// How far it is, for a handler at that place; nil where the outcome may have been handled.
    fileprivate func progress(at place: CallbackPlace) -> TransferProgress? {
        state.withLock { state in
            let delivery = state.machine.delivery
            // On the serial executor the finish handlers stand behind this call; elsewhere they may have run.
            return (place.isExecutor ? delivery.isSettled : delivery.hasBegun) ? nil : state.progress
        }
    }
}
