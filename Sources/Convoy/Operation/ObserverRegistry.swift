// The observers of an operation.
import Foundation

struct ObserverRegistry: Sendable {
    struct StateObserver: Sendable {
        let identity: Int
        let keyPath: KeyPath<Operation, Bool> & Sendable
        let tell: @Sendable (AnyRequestOperation) -> Void
    }

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
    var progress: [ProgressNotifier] = []
    var events: BroadcastSource<RequestEvent>?
    /// Events in the order in which they happened; the thread that finds `isTelling` false sends them all.
    var pending: [RequestEvent] = []
    var isTelling = false
}

extension OperationRecord {
    mutating func observing<Result>(_ change: (inout ObserverRegistry) -> Result) -> Result {
        var made = registry ?? CopyOnWrite(ObserverRegistry())
        // `registry` is nil during the change, so that the change copies nothing.
        registry = nil
        defer { registry = made }
        return change(&made.value)
    }

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
        guard delivery.hasNotifiedEnd, observers?.isTelling == false else { return nil }
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
        let (source, end) = withLock { state -> (BroadcastSource<RequestEvent>, AnyOutcome?) in
            if let source = state.observers?.events { return (source, nil) }
            // The outcome is known, so the broadcast ends with it at once.
            if state.delivery.hasBegun { return (fresh, state.outcome) }
            state.observing { $0.events = fresh }
            hasListeners.store(true, ordering: .relaxed)
            return (fresh, nil)
        }
        if let end { source.end(with: .finished(end.error)) }
        return Broadcast(source: source)
    }

    /// With a number, the event has an effect only while that attempt is the current one.
    func emit(_ event: RequestEvent, during attempt: Int? = nil) {
        guard hasListeners.load(ordering: .relaxed) else { return }
        // An event that arrives after the outcome is discarded.
        let isNotifier = withLock { record in
            !record.delivery.hasBegun && (attempt == nil || record.currentAttempt == attempt) && record.note(event)
        }
        if isNotifier { notifyEvents() }
    }

    func notifyEvents() {
        while true {
            typealias Registry = CopyOnWrite<ObserverRegistry>
            let (observers, dropped) = withLock { state -> (ObserverRegistry?, Registry?) in
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
        let monitors = scheduler.monitors
        if !monitors.isEmpty {
            scheduler.monitorQueue.async { for monitor in monitors { monitor.operation(self, did: event) } }
        }
        if event.isFinished { observers.events?.end(with: event) } else { observers.events?.send(event) }
        if event.isProgress { for notifier in observers.progress { notifier.moved(self) } }
    }
}

/// Which values of a change are reported: the options of Foundation's KVO that apply to a Boolean.
public struct StateObservingOptions: OptionSet, Sendable {
    /// The options as bits.
    public let rawValue: Int
    /// Makes options from bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Report the new value.
    public static let new = StateObservingOptions(rawValue: 1)
    /// Report the value before the change.
    public static let old = StateObservingOptions(rawValue: 2)
    /// Call the handler once at the beginning, before `observeState` returns.
    public static let initial = StateObservingOptions(rawValue: 4)
}

/// A change of an operation's state.
public struct StateChange: Sendable {
    /// The value when the handler is called, with `.new`; otherwise nil.
    public let newValue: Bool?
    /// The previous value, with `.old`; otherwise nil.
    ///
    /// This is the value of the previous call, or for the first call the value when the observation began. It is nil in
    /// the call that `.initial` makes.
    public let oldValue: Bool?
}

/// Keeps an observation alive.
///
/// The observation ends with ``invalidate()`` or when this object is released.
public final class StateObservation: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// Ends the observation.
    ///
    /// Later calls have no effect.
    public func invalidate() { end() }
}

extension AnyRequestOperation {
    /// Observes `\.isExecuting`, `\.isFinished`, `\.isCancelled` or `\.isReady` on every platform, with KVO where
    /// available.
    ///
    /// ```swift
    /// let observation = operation.observeState(
    ///     \.isFinished, options: .new
    /// ) { _, change in print(change.newValue ?? false) }
    /// ```
    ///
    /// - Parameters:
    ///   - keyPath: what to observe. Other keys are never reported.
    ///   - options: `.new` reports the value, `.old` the previous value, and `.initial` calls the handler once now.
    ///   - changeHandler: called on the thread that makes the change, with no lock held, as with KVO. The handler must
    ///     be fast. It must not wait for the end of the operation, which is notified after the handlers for its start
    ///     have returned.
    /// - Returns: the observation, which ends when it is released.
    public final func observeState(
        _ keyPath: KeyPath<Operation, Bool> & Sendable, options: StateObservingOptions = [],
        changeHandler: @escaping @Sendable (Operation, StateChange) -> Void
    ) -> StateObservation {
        let isInitial = options.contains(.initial)
        let known = Locked<Bool?>(isInitial ? nil : self[keyPath: keyPath])
        let tell = { @Sendable (operation: Operation) in
            let new = operation[keyPath: keyPath]
            let old = known.withLock { known in
                defer { known = new }
                return known
            }
            changeHandler(
                operation,
                StateChange(
                    newValue: options.contains(.new) ? new : nil, oldValue: options.contains(.old) ? old : nil))
        }
        #if canImport(FoundationNetworking)
            return addStateObserver(keyPath, isInitial: isInitial, tell)
        #else
            let observer = KeyValueObserver(
                (self as Operation).observe(keyPath, options: isInitial ? .initial : []) {
                    operation, _ in
                    tell(operation)
                })
            return StateObservation { observer.invalidate() }
        #endif
    }
}

#if canImport(FoundationNetworking)
    extension AnyRequestOperation {
        /// ``observeState(_:options:changeHandler:)``, by the name that KVO has on Apple platforms.
        public final func observe(
            _ keyPath: KeyPath<Operation, Bool> & Sendable, options: StateObservingOptions = [],
            changeHandler: @escaping @Sendable (Operation, StateChange) -> Void
        ) -> StateObservation {
            observeState(keyPath, options: options, changeHandler: changeHandler)
        }

        /// Adds an observer to the library's own list, because Linux has no KVO.
        private func addStateObserver(
            _ keyPath: KeyPath<Operation, Bool> & Sendable, isInitial: Bool,
            _ tell: @escaping @Sendable (AnyRequestOperation) -> Void
        ) -> StateObservation {
            let identity = withLock { state in
                state.observing { observers in
                    observers.lastIdentity += 1
                    observers.state.append(.init(identity: observers.lastIdentity, keyPath: keyPath, tell: tell))
                    return observers.lastIdentity
                }
            }
            if isInitial { tell(self) }
            return StateObservation { [weak self] in
                let removed = self?.withLock { state -> [ObserverRegistry.StateObserver] in
                    defer { state.registry?.value.state.removeAll { $0.identity == identity } }
                    return state.observers?.state.filter { $0.identity == identity } ?? []
                }
                // A removed handler may hold the last reference to an object, which is released outside the lock.
                withExtendedLifetime(removed) {}
            }
        }

        func notifyStateObservers(_ keyPath: KeyPath<Operation, Bool> & Sendable) {
            let observers = withLock { $0.observers?.state ?? [] }
            for observer in observers where observer.keyPath == keyPath { observer.tell(self) }
        }
    }
#else
    private final class KeyValueObserver: @unchecked Sendable {
        // @unchecked: Foundation does not declare `Sendable`, but any thread may end an observation.
        private let observation: NSKeyValueObservation

        init(_ observation: NSKeyValueObservation) { self.observation = observation }

        func invalidate() { observation.invalidate() }
    }
#endif

/// An event of a request operation.
public enum RequestEvent: Sendable {
    /// The operation was assigned to a manager, which schedules it.
    case queued
    /// An attempt begins. The first has number 1.
    case started(attempt: Int)
    /// The head of a response arrived.
    case response(ResponseHead)
    /// Bytes moved. Slow readers get only the latest count.
    case progress(TransferProgress)
    /// An attempt has ended, and another follows. ``AttemptRecord/next`` says why.
    case attemptEnded(AttemptRecord)
    /// The operation was suspended, itself or with its group.
    case suspended
    /// The operation was resumed, itself or with its group.
    case resumed
    /// The operation has its outcome; nil is success. No event follows.
    case finished(RequestError?)

    var isProgress: Bool { if case .progress = self { true } else { false } }
    var isFinished: Bool { if case .finished = self { true } else { false } }
}

/// A monitor that receives the bodies of responses.
package protocol BodyKeepingMonitor: EventMonitor {
    /// The size in bytes of the largest body that the outcome stores in memory; 0 for none.
    var keptBodyBytes: Int { get }
}

/// Observes all operations of a manager, for logging, metrics or traces.
///
/// ```swift
/// struct Log: EventMonitor {
///     func operation(
///         _ operation: AnyRequestOperation, did event: RequestEvent
///     ) { print(operation, event) }
/// }
/// ```
///
/// - Thread: one serial queue of the manager, in order for each operation; never a transport's thread.
public protocol EventMonitor: Sendable {
    /// Called for each event.
    func operation(_ operation: AnyRequestOperation, did event: RequestEvent)

    /// Called when an operation was enqueued that had already finished, or is another manager's; it is not sent here.
    ///
    /// By default this method does nothing.
    ///
    /// The call is not an event, because the events of an operation end with `.finished`.
    func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError)
}

extension EventMonitor {
    /// Does nothing.
    public func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) {}
}

// Delivers progress from the transport's thread to a handler of the caller.
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
