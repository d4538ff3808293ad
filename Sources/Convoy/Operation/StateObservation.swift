// Observing the state of an operation, with the same call on every platform.
import Foundation

/// What to be told of a change: Foundation's options that make sense for a Boolean.
public struct StateObservingOptions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Makes options of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Give the new value.
    public static let new = StateObservingOptions(rawValue: 1)
    /// Give the value before the change.
    public static let old = StateObservingOptions(rawValue: 2)
    /// Call once at the beginning, before the observing call returns.
    public static let initial = StateObservingOptions(rawValue: 4)
}

/// A change of an operation's state.
public struct StateChange: Sendable {
    /// The value at the time of the call, when `.new` was asked for.
    public let newValue: Bool?
    /// The value that was told before, or that of the beginning, when `.old` was asked for; nil in the first call that
    /// `.initial` makes.
    public let oldValue: Bool?
}

/// Keeps an observation alive; it ends with ``invalidate()`` or when this is released.
public final class StateObservation: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// Ends the observation; again or late: no effect.
    public func invalidate() { end() }
}

extension AnyRequestOperation {
    /// Observes `\.isExecuting`, `\.isFinished`, `\.isCancelled` or `\.isReady`, on every platform: by KVO where there is KVO.
    ///
    /// ```swift
    /// let observation = operation.observeState(
    ///     \.isFinished, options: .new
    /// ) { _, change in print(change.newValue ?? false) }
    /// ```
    ///
    /// - Parameters:
    ///   - keyPath: what to observe; of other keys nothing is told.
    ///   - options: `.new` for the value, `.old` for the one before, `.initial` for a first call now.
    ///   - changeHandler: called on the thread that makes the change, with no lock held, as KVO does: be brief.
    /// - Returns: the observation; it ends when this is released.
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
        /// ``observeState(_:options:changeHandler:)`` by the name that KVO has on Apple platforms.
        public final func observe(
            _ keyPath: KeyPath<Operation, Bool> & Sendable, options: StateObservingOptions = [],
            changeHandler: @escaping @Sendable (Operation, StateChange) -> Void
        ) -> StateObservation {
            observeState(keyPath, options: options, changeHandler: changeHandler)
        }

        /// There is no KVO: the observers are our own.
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
                    defer { state.observers?.state.removeAll { $0.identity == identity } }
                    return state.observers?.state.filter { $0.identity == identity } ?? []
                }
                // What it captured goes outside the lock.
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
        // @unchecked: Foundation does not say so, but an observation may be ended on any thread.
        private let observation: NSKeyValueObservation

        init(_ observation: NSKeyValueObservation) { self.observation = observation }

        func invalidate() { observation.invalidate() }
    }
#endif
