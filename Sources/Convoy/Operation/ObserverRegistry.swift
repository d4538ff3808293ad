// What observes an operation.
import Foundation

/// The observers of one operation, and the events still to be told.
///
/// Made with the first observer.
struct ObserverRegistry {
    struct StateObserver: Sendable {
        let identity: Int
        let keyPath: KeyPath<Operation, Bool> & Sendable
        let tell: @Sendable (AnyRequestOperation) -> Void
    }

    var state: [StateObserver] = []
    /// Numbers the observers of state.
    var lastIdentity = 0
    var progress = ProgressObservers()
    var events: BroadcastSource<RequestEvent>?
    /// Events in the order they happened; the thread that finds `isTelling` false tells them all.
    var pending: [RequestEvent] = []
    var isTelling = false
}

/// What is told of progress.
struct ProgressObservers: Sendable {
    /// The library's own, told of every change.
    var direct: [@Sendable (TransferProgress) -> Void] = []
    /// The caller's.
    var notifiers: [ProgressNotifier] = []

    func tell(_ progress: TransferProgress, of operation: AnyRequestOperation) {
        for tell in direct { tell(progress) }
        for notifier in notifiers { notifier.moved(operation) }
    }
}

extension OperationState {
    /// Changes the observers, which are made with the first.
    mutating func observing<Result>(_ change: (inout ObserverRegistry) -> Result) -> Result {
        var registry = observers ?? ObserverRegistry()
        // Leaves the optional empty meanwhile, so that changing the arrays copies nothing.
        observers = nil
        defer { observers = registry }
        return change(&registry)
    }

    /// Notes an event behind those before it; true when they are to be told now, by ``AnyRequestOperation/notifyEvents()``.
    mutating func note(_ event: RequestEvent) -> Bool {
        guard isWatched else { return false }
        return observing { observers in
            observers.pending.append(event)
            defer { observers.isTelling = true }
            return !observers.isTelling
        }
    }

    /// Lets go of the observers once the last thing has been told; their closures may hold the operation.
    ///
    /// - Returns: what was let go of, to be released outside the lock.
    mutating func takeObserversIfOver() -> ObserverRegistry? {
        // Observers of the end are notified outside the lock, after the state has changed.
        guard machine.delivery.hasNotifiedEnd, observers?.isTelling == false else { return nil }
        defer { observers = nil }
        return observers
    }
}

extension AnyRequestOperation {
    /// What happens to the operation from now on, for any number of readers; a reader that comes late gets the end.
    public final var events: Broadcast<RequestEvent> {
        let fresh = BroadcastSource<RequestEvent> { $0.isProgress && $1.isProgress }
        let (source, end) = state.withLock { state -> (BroadcastSource<RequestEvent>, AnyOutcome?) in
            if let source = state.observers?.events { return (source, nil) }
            // Too late to be told: what there is to tell is known.
            if state.machine.delivery.hasBegun { return (fresh, state.outcome) }
            state.observing { $0.events = fresh }
            return (fresh, nil)
        }
        if let end { source.end(with: .finished(end.error)) }
        return Broadcast(source: source)
    }

    /// Calls back on every change of progress from now on; not after the outcome.
    func observeProgress(_ moved: @escaping @Sendable (TransferProgress) -> Void) {
        state.withLock { state in
            guard !state.machine.delivery.hasBegun else { return }
            state.observing { $0.progress.direct.append(moved) }
        }
    }

    /// Notes an event and tells it, after those before it, with no lock held.
    func emit(_ event: RequestEvent) {
        // What was decided before the end and is told behind it is not told.
        let isNotifier = state.withLock { !$0.machine.delivery.hasBegun && $0.note(event) }
        if isNotifier { notifyEvents() }
    }

    /// Tells the events that have been noted, and those that are noted meanwhile.
    func notifyEvents() {
        while let observers = takePending() {
            for event in observers.pending { tell(event, observers) }
        }
    }

    /// The observers, with the events still to be told; nil when there are none.
    private func takePending() -> ObserverRegistry? {
        let (pending, dropped) = state.withLock { state -> (ObserverRegistry?, ObserverRegistry?) in
            guard let observers = state.observers, !observers.pending.isEmpty else {
                state.observers?.isTelling = false
                return (nil, state.takeObserversIfOver())
            }
            state.observers?.pending = []
            return (observers, nil)
        }
        // What its closures captured goes outside the lock: it may call back from its deinit.
        return withExtendedLifetime(dropped) { pending }
    }

    private func tell(_ event: RequestEvent, _ observers: ObserverRegistry) {
        let monitors = context.monitors
        if !monitors.isEmpty {
            context.monitorQueue.async { for monitor in monitors { monitor.operation(self, did: event) } }
        }
        if event.isFinished { observers.events?.end(with: event) } else { observers.events?.send(event) }
        if case .progress(let progress) = event { observers.progress.tell(progress, of: self) }
    }
}
