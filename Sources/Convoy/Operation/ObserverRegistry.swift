// Who watches an operation.
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

    struct ProgressObserver: Sendable {
        let identity: Int
        let tell: @Sendable (TransferProgress) -> Void
    }

    var stateObservers: [StateObserver] = []
    var progressObservers: [ProgressObserver] = []
    var events: BroadcastSource<RequestEvent>?
    /// Events in the order they happened; the thread that finds `isTelling` false tells them all.
    var pending: [RequestEvent] = []
    var isTelling = false
    var hasEnded = false
    private var lastIdentity = 0

    mutating func makeIdentity() -> Int {
        lastIdentity += 1
        return lastIdentity
    }
}

extension ObserverRegistry {
    mutating func addStateObserver(
        _ keyPath: KeyPath<Operation, Bool> & Sendable, tell: @escaping @Sendable (AnyRequestOperation) -> Void
    ) -> Int {
        let identity = makeIdentity()
        stateObservers.append(StateObserver(identity: identity, keyPath: keyPath, tell: tell))
        return identity
    }
}

extension OperationState {
    /// Lets go of the observers once the last thing has been told; their closures may hold the operation.
    ///
    /// - Returns: what was let go of, to be released outside the lock.
    mutating func takeWatchIfOver() -> ObserverRegistry? {
        // Observers of the end are notified outside the lock, after the state has changed.
        guard machine.delivery.hasNotifiedEnd, watch?.hasEnded == true, watch?.isTelling == false else { return nil }
        defer { watch = nil }
        return watch
    }
}

extension AnyRequestOperation {
    /// What happens to the operation from now on, for any number of readers; a reader that comes late gets the end.
    public final var events: Broadcast<RequestEvent> {
        let fresh = BroadcastSource<RequestEvent> { $0.isProgress && $1.isProgress }
        let (source, end) = state.withLock { state -> (BroadcastSource<RequestEvent>, AnyOutcome?) in
            if let source = state.watch?.events { return (source, nil) }
            // Too late to be told: what there is to tell is known.
            if state.hasEmittedEnd { return (fresh, state.outcome) }
            var watch = state.watch ?? ObserverRegistry()
            watch.events = fresh
            state.watch = watch
            return (fresh, nil)
        }
        if let end {
            source.end(with: .finished(end.error))
        }
        return Broadcast(source: source)
    }

    /// Adds a handler for byte progress.
    ///
    /// At most one call is under way or waiting: a slow handler is not flooded, it gets the latest count. None comes after
    /// the outcome has been delivered. It is told what changes from now on: of what had come before, ask ``progress``.
    ///
    /// - Parameters:
    ///   - delivery: where to call it; as for finish handlers by default.
    ///   - handler: receives the count.
    @discardableResult
    public final func onProgress(
        on delivery: Delivery? = nil, _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) -> Self {
        watchProgress(at: CallbackPlace(delivery ?? context.callbacks), handler)
        return self
    }

    /// The same, at a place that is known.
    func watchProgress(at place: CallbackPlace, _ handler: @escaping @Sendable (TransferProgress) -> Void) {
        let isWaiting = Locked(false)
        // Weak, because the operation holds the closure.
        let holder = WeakOperation(operation: self)
        whenProgressing { _ in
            let isFirst = isWaiting.withLock { isWaiting in
                defer { isWaiting = true }
                return !isWaiting
            }
            guard isFirst, let operation = holder.operation else { return }
            operation.run(at: place) {
                isWaiting.withLock { $0 = false }
                // On the lane the finish handlers stand behind this call; elsewhere they may have run.
                let isLate = { (delivery: HandlerDelivery) in place.isLane ? delivery.isSettled : delivery.hasBegun }
                let progress = holder.operation?.state.withLock { isLate($0.machine.delivery) ? nil : $0.progress }
                guard let progress = progress ?? nil else { return }
                handler(progress)
            }
        }
    }

    /// Tells the library's own observers of every change, on the thread that reports it.
    func whenProgressing(_ tell: @escaping @Sendable (TransferProgress) -> Void) {
        state.withLock { state in
            // Nothing follows the outcome, and the closure would never be released.
            guard !state.machine.delivery.hasBegun else { return }
            var watch = state.watch ?? ObserverRegistry()
            state.watch = nil
            watch.progressObservers.append(.init(identity: watch.makeIdentity(), tell: tell))
            state.watch = watch
        }
    }

    func watching<Result: Sendable>(_ body: (inout ObserverRegistry) -> Result) -> Result {
        state.withLock { state in
            var watch = state.watch ?? ObserverRegistry()
            // Leaves the optional empty meanwhile, so that changing the arrays copies nothing.
            state.watch = nil
            defer { state.watch = watch }
            return body(&watch)
        }
    }

    /// Notes an event and tells it, after those before it, with no lock held.
    func emit(_ event: RequestEvent) {
        let isMonitored = !context.monitors.isEmpty
        let isTeller = state.withLock { state -> Bool in
            // What was decided before the end and is told behind it is not told.
            guard !state.hasEmittedEnd else { return false }
            if event.isFinished { state.hasEmittedEnd = true }
            if isMonitored, state.watch == nil { state.watch = ObserverRegistry() }
            guard state.watch != nil, state.watch?.hasEnded == false else { return false }
            if event.isFinished { state.watch?.hasEnded = true }
            state.watch?.pending.append(event)
            guard state.watch?.isTelling == false else { return false }
            state.watch?.isTelling = true
            return true
        }
        guard isTeller else { return }
        while let watch = takePending() {
            for event in watch.pending { tell(event, watch.events, watch.progressObservers) }
        }
    }

    /// The watch with the events still to be told; nil when there are none.
    private func takePending() -> ObserverRegistry? {
        let (pending, dropped) = state.withLock { state -> (ObserverRegistry?, ObserverRegistry?) in
            guard let watch = state.watch, !watch.pending.isEmpty else {
                state.watch?.isTelling = false
                return (nil, state.takeWatchIfOver())
            }
            state.watch?.pending = []
            return (watch, nil)
        }
        // What its closures captured goes outside the lock: it may call back from its deinit.
        return withExtendedLifetime(dropped) { pending }
    }

    private func tell(
        _ event: RequestEvent, _ source: BroadcastSource<RequestEvent>?,
        _ observers: [ObserverRegistry.ProgressObserver]
    ) {
        let monitors = context.monitors
        if !monitors.isEmpty {
            context.monitorQueue.async { for monitor in monitors { monitor.operation(self, did: event) } }
        }
        if event.isFinished { source?.end(with: event) } else { source?.send(event) }
        if case .progress(let progress) = event { for observer in observers { observer.tell(progress) } }
    }
}
