// Observes the state of an operation, with the same call on every platform.
import Foundation

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
            let identity = state.withLock { state in
                state.observing { observers in
                    observers.lastIdentity += 1
                    observers.state.append(.init(identity: observers.lastIdentity, keyPath: keyPath, tell: tell))
                    return observers.lastIdentity
                }
            }
            if isInitial { tell(self) }
            return StateObservation { [weak self] in
                let removed = self?.state.withLock { state -> [ObserverRegistry.StateObserver] in
                    defer { state.registry?.value.state.removeAll { $0.identity == identity } }
                    return state.observers?.state.filter { $0.identity == identity } ?? []
                }
                // A removed handler may hold the last reference to an object, which is released outside the lock.
                withExtendedLifetime(removed) {}
            }
        }

        func notifyStateObservers(_ keyPath: KeyPath<Operation, Bool> & Sendable) {
            let observers = state.withLock { $0.observers?.state ?? [] }
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
