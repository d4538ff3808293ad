// The only file that sends KVO notifications of the state. On Linux, which has no KVO, it notifies Foundation and the
// library's own observers.
import Foundation

extension AnyRequestOperation {
    /// The state keys that Foundation's queues and KVO observers follow.
    enum StateKey: String {
        case isExecuting
        case isFinished
        case isReady

        var keyPath: KeyPath<Operation, Bool> & Sendable {
            switch self {
            case .isExecuting: \.isExecuting
            case .isFinished: \.isFinished
            case .isReady: \.isReady
            }
        }
    }

    /// Whether user code runs inside the notifications, which are then never sent on a transport's thread.
    var isObservedSynchronously: Bool {
        #if canImport(FoundationNetworking)
            state.withLock { $0.isObserved }
        #else
            observationInfo != nil
        #endif
    }

    /// Sends the KVO pair of `isReady`, after its value may have changed.
    ///
    /// swift-corelibs-foundation reads the value and stores it later. If two threads notified at once, the older value
    /// could be stored last, and the queue would never start the operation. So one thread notifies for all.
    func notifyReadiness() {
        var told: UInt32 = 0
        let isNotifier = state.withLock { state in
            guard state.notifiesReadiness else { return false }
            state.readinessChanges &+= 1
            told = state.readinessChanges
            return state.readinessChanges == 1
        }
        guard isNotifier else { return }
        repeat {
            if !notifyByGate() { notifying([.isReady]) { state.withLock { ((), $0.notificationTargets) } } }
        } while state.withLock { state in
            defer { told = state.readinessChanges }
            guard state.readinessChanges == told else { return true }
            state.readinessChanges = 0
            return false
        }
    }

    /// Performs a change of state, and sends the KVO notifications of each key, with no lock held.
    ///
    /// On Linux there is no KVO. Foundation needs `isReady` and `isFinished`, the library's own observers need every
    /// key.
    func notifying<Result>(_ keys: [StateKey], around change: () -> (Result, OperationState.NotificationTargets))
        -> Result
    {
        #if canImport(FoundationNetworking)
            let (result, notificationTargets) = change()
            for key in keys {
                let isObserved = notificationTargets == .observers
                if isObserved || notificationTargets == .foundation && key != .isExecuting {
                    didChangeValue(forKey: key.rawValue)
                }
                if isObserved { notifyStateObservers(key.keyPath) }
            }
            return result
        #else
            for key in keys { willChangeValue(forKey: key.rawValue) }
            let (result, _) = change()
            for key in keys { didChangeValue(forKey: key.rawValue) }
            return result
        #endif
    }
}

extension OperationState {
    /// The code that is notified of a change of state.
    enum NotificationTargets {
        /// None: no code outside Convoy refers to the operation, and on Linux notifying Foundation takes five locks.
        case none
        /// Foundation: a queue, a dependent that is not a request, or a thread may wait for the operation.
        case foundation
        /// Foundation, and the observers that `observeState` has added.
        case observers
    }

    var notificationTargets: NotificationTargets { isObserved ? .observers : isSeen ? .foundation : .none }

    /// Marks that code outside Convoy may refer to the operation, so that Foundation is notified of its changes.
    ///
    /// True if the operation finished before the mark. The caller must then notify Foundation of the end.
    mutating func becomeSeen() -> Bool {
        guard !isSeen else { return false }
        isSeen = true
        return machine.isFinished
    }
}

extension AnyRequestOperation {
    /// Returns the operation for user code, which may wait for it or make another operation depend on it.
    func handedOut() -> Self {
        #if canImport(FoundationNetworking)
            if isInternal, state.withLock({ $0.becomeSeen() }) {
                didChangeValue(forKey: StateKey.isFinished.rawValue)
            }
        #endif
        return self
    }
}
