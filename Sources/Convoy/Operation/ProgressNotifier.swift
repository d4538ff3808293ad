// Delivers progress from the transport's thread to a handler of the caller.
import Foundation

final class ProgressNotifier: Sendable {
    private struct State {
        var isWaiting = false
        var told = TransferProgress()
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
        // The interval is limited to 1,000,000,000 seconds, because an overflowing sum would trap.
        self.interval = interval.map { min($0, .seconds(1_000_000_000)) }
        (self.place, self.clock, self.handler) = (place, clock, handler)
    }

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

    func lastCall(_ progress: TransferProgress) -> FinishHandler {
        FinishHandler(place: place) { _ in self.tell(progress) }
    }

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
            if let progress = operation?.progressBeforeOutcome { self.tell(progress) }
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
    /// At most one call is waiting, so a slow handler is not flooded and gets the latest count. On a serial queue the
    /// calls run one after the other. On a concurrent queue a call may begin before the previous one has returned. The
    /// handler never gets the same counts twice in a row.
    ///
    /// After a failure, no call follows the outcome. After a success, the handler always gets the last counts, before
    /// the handlers of the outcome are dispatched. Only changes from now on are reported; read ``progress`` for
    /// earlier ones.
    ///
    /// `await response()` returns after the last call with the default delivery. A call with another delivery, such as
    /// `.main`, has been dispatched and may still be waiting.
    ///
    /// ```swift
    /// operation.onProgress(every: .milliseconds(250)) {
    ///     print($0.download.bytesPerSecond ?? 0)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - delivery: where to call the handler; by default as for finish handlers.
    ///   - interval: the minimum time between two calls, on ``RequestManager/Configuration/clock``. With nil, the
    ///     default, or zero, the next call may follow at once. The last counts of a success ignore the interval.
    ///   - handler: receives the counts, with the speed of each direction.
    @discardableResult
    public final func onProgress(
        on delivery: Delivery? = nil, every interval: Duration? = nil,
        _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) -> Self {
        notifyProgress(at: place(delivery), every: interval, handler)
        return self
    }

    func notifyProgress(
        at place: CallbackPlace, every interval: Duration? = nil,
        _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) {
        let notifier = ProgressNotifier(place, every: interval, clock: scheduler.clock, handler)
        withLock { state in
            // No progress follows the outcome. A handler that was added after the outcome would never be released.
            guard !state.delivery.hasBegun else { return }
            state.observing { $0.progress.append(notifier) }
            hasListeners.store(true, ordering: .relaxed)
        }
    }

    /// Nil once the outcome is being delivered: from then on, only `lastCall` reports counts.
    fileprivate var progressBeforeOutcome: TransferProgress? {
        withLock { $0.delivery.hasBegun } ? nil : progress
    }
}
