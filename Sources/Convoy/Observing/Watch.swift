// Who watches an operation.
import Foundation

/// The observers of one operation, and the events still to be told.
///
/// Made with the first observer.
struct Watch {
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
    /// Events in the order they happened; whoever finds `isTelling` false tells them all.
    var pending: [RequestEvent] = []
    var isTelling = false
    var hasEnded = false
    private var lastIdentity = 0

    mutating func makeIdentity() -> Int {
        lastIdentity += 1
        return lastIdentity
    }
}

extension Watch {
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
    mutating func dropWatchIfOver() {
        if machine.isFinished, watch?.hasEnded == true, watch?.isTelling == false { watch = nil }
    }
}

extension AnyRequestOperation {
    /// What happens to the operation from now on, for any number of readers; a reader that comes late gets the end.
    public final var events: Broadcast<RequestEvent> {
        let source = watching { watch in
            if let source = watch.events { return source }
            let source = BroadcastSource<RequestEvent> { $0.isProgress && $1.isProgress }
            watch.events = source
            return source
        }
        if let outcome = state.withLock({ $0.isDelivering ? $0.outcome : nil }) {
            source.send(.finished(outcome.error))
            source.end()
        }
        return Broadcast(source: source)
    }

    /// Adds a handler for byte progress.
    ///
    /// At most one call is under way or waiting: a slow handler is not flooded, it gets the latest count. None comes after
    /// the outcome has been delivered.
    ///
    /// - Parameters:
    ///   - delivery: where to call it; as for finish handlers by default.
    ///   - handler: receives the count.
    @discardableResult
    public final func onProgress(
        on delivery: Delivery? = nil, _ handler: @escaping @Sendable (TransferProgress) -> Void
    ) -> Self {
        let place = CallbackPlace(delivery ?? context.callbacks)
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
                guard let progress = holder.operation?.state.withLock({ $0.isSettled ? nil : $0.progress }) ?? nil
                else { return }
                handler(progress)
            }
        }
        return self
    }

    /// Tells the library's own observers of every change, on the thread that reports it.
    func whenProgressing(_ tell: @escaping @Sendable (TransferProgress) -> Void) {
        watching { watch in
            watch.progressObservers.append(.init(identity: watch.makeIdentity(), tell: tell))
        }
    }

    func watching<Result>(_ body: (inout Watch) -> Result) -> Result {
        state.withLock { state in
            var watch = state.watch ?? Watch()
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
            if isMonitored, state.watch == nil { state.watch = Watch() }
            guard state.watch != nil, state.watch?.hasEnded == false else { return false }
            if event.isFinished { state.watch?.hasEnded = true }
            state.watch?.pending.append(event)
            guard state.watch?.isTelling == false else { return false }
            state.watch?.isTelling = true
            return true
        }
        guard isTeller else { return }
        while let (events, source, observers) = takePending() {
            for event in events { tell(event, source, observers) }
        }
    }

    private func takePending() -> ([RequestEvent], BroadcastSource<RequestEvent>?, [Watch.ProgressObserver])? {
        state.withLock { state in
            guard let watch = state.watch, !watch.pending.isEmpty else {
                state.watch?.isTelling = false
                state.dropWatchIfOver()
                return nil
            }
            state.watch?.pending = []
            return (watch.pending, watch.events, watch.progressObservers)
        }
    }

    private func tell(
        _ event: RequestEvent, _ source: BroadcastSource<RequestEvent>?, _ observers: [Watch.ProgressObserver]
    ) {
        let monitors = context.monitors
        if !monitors.isEmpty {
            context.monitorQueue.async { for monitor in monitors { monitor.operation(self, did: event) } }
        }
        source?.send(event)
        if event.isFinished { source?.end() }
        if case .progress(let progress) = event { for observer in observers { observer.tell(progress) } }
    }
}
