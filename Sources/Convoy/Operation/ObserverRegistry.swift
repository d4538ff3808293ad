// The observers of an operation.
import Foundation

/// The observers of one operation, and the events that have yet to be sent to them.
struct ObserverRegistry: Sendable {
    struct StateObserver: Sendable {
        let identity: Int
        let keyPath: KeyPath<Operation, Bool> & Sendable
        let tell: @Sendable (AnyRequestOperation) -> Void
    }

    /// Which thread notifies observers of the end.
    ///
    /// The notification of the start must come first, even if another thread ends the operation meanwhile.
    enum StartNotification {
        /// The thread that ends the operation.
        case none
        /// A thread notifies observers of the start, and will notify them of the end if there is one by then.
        case isRunning
        /// The operation has ended. The thread that notifies observers of the start then notifies them of the end.
        case endFollows
    }

    var state: [StateObserver] = []
    var startNotification = StartNotification.none
    var lastIdentity = 0
    var progress = ProgressObservers()
    var events: BroadcastSource<RequestEvent>?
    /// Events in the order in which they happened; the thread that finds `isTelling` false sends them all.
    var pending: [RequestEvent] = []
    var isTelling = false
}

struct ProgressObservers: Sendable {
    var direct: [@Sendable (TransferProgress) -> Void] = []
    var notifiers: [ProgressNotifier] = []

    func tell(_ progress: TransferProgress, of operation: AnyRequestOperation) {
        for tell in direct { tell(progress) }
        for notifier in notifiers { notifier.moved(operation) }
    }
}

extension OperationState {
    /// Changes the registry of observers, and makes it on first use.
    mutating func observing<Result>(_ change: (inout ObserverRegistry) -> Result) -> Result {
        var made = registry ?? CopyOnWrite(ObserverRegistry())
        // `registry` is nil during the change, so that the change copies nothing.
        registry = nil
        defer { registry = made }
        return change(&made.value)
    }

    /// Appends an event; true if the caller must send it now with ``AnyRequestOperation/notifyEvents()``.
    mutating func note(_ event: RequestEvent) -> Bool {
        guard isWatched else { return false }
        return observing { observers in
            observers.pending.append(event)
            defer { observers.isTelling = true }
            return !observers.isTelling
        }
    }

    /// Removes and returns the observers, which may retain the operation, once the last event has been sent.
    mutating func takeObserversIfOver() -> CopyOnWrite<ObserverRegistry>? {
        // Until `hasNotifiedEnd`, observers of `isFinished` may have to be notified, which happens outside the lock.
        guard machine.delivery.hasNotifiedEnd, observers?.isTelling == false else { return nil }
        defer { registry = nil }
        return registry
    }
}

extension AnyRequestOperation {
    /// The events of the operation from now on, for any number of readers.
    ///
    /// A reader that begins after the outcome receives only `.finished`.
    public final var events: Broadcast<RequestEvent> {
        let fresh = BroadcastSource<RequestEvent> { $0.isProgress && $1.isProgress }
        let (source, end) = state.withLock { state -> (BroadcastSource<RequestEvent>, AnyOutcome?) in
            if let source = state.observers?.events { return (source, nil) }
            // The outcome is known, so the broadcast ends with it at once.
            if state.machine.delivery.hasBegun { return (fresh, state.outcome) }
            state.observing { $0.events = fresh }
            return (fresh, nil)
        }
        if let end { source.end(with: .finished(end.error)) }
        return Broadcast(source: source)
    }

    func observeProgress(_ moved: @escaping @Sendable (TransferProgress) -> Void) {
        state.withLock { state in
            guard !state.machine.delivery.hasBegun else { return }
            state.observing { $0.progress.direct.append(moved) }
        }
    }

    /// Appends an event and sends it in order, with no lock held.
    func emit(_ event: RequestEvent) {
        // An event that arrives after the outcome is discarded.
        let isNotifier = state.withLock { !$0.machine.delivery.hasBegun && $0.note(event) }
        if isNotifier { notifyEvents() }
    }

    /// Sends the pending events, and all events that are added while it sends them.
    func notifyEvents() {
        while true {
            typealias Registry = CopyOnWrite<ObserverRegistry>
            let (observers, dropped) = state.withLock { state -> (ObserverRegistry?, Registry?) in
                guard let observers = state.observers, !observers.pending.isEmpty else {
                    state.registry?.value.isTelling = false
                    return (nil, state.takeObserversIfOver())
                }
                state.registry?.value.pending = []
                return (observers, nil)
            }
            // `dropped` is released outside the lock, because the deinit of an object that it retains may call back.
            withExtendedLifetime(dropped) {}
            guard let observers else { return }
            for event in observers.pending { tell(event, observers) }
        }
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
