// The one file that sends the finish notifications: KVO, and our own observation where there is no KVO.
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

    /// Whether code of the user's runs inside the notifications; they are then never sent on a transport's thread.
    var isObservedSynchronously: Bool {
        #if canImport(FoundationNetworking)
            state.withLock { $0.isObserved }
        #else
            observationInfo != nil
        #endif
    }

    /// Whether finishing now runs no code of the user's and takes no time: then it may happen on a transport's thread.
    func finishesWithoutUserCode(_ completion: OperationState.Completion) -> Bool {
        #if canImport(FoundationNetworking)
            guard !completion.isObserved else { return false }
        #else
            guard !isObservedSynchronously else { return false }
        #endif
        guard completion.hasEdges else { return true }
        // Many dependents are told elsewhere, and so is one that is observed.
        let dependents = DependencyGraph.dependents(of: self, atMost: 2)
        return dependents.count < 2 && dependents.allSatisfy { !$0.isObservedSynchronously }
    }

    /// Sends the KVO pair of `isReady`, after it may have changed.
    ///
    /// corelibs asks what it is now and notes it later: of two threads that tell it at a time the one with the older answer
    /// may note it last, and the queue would never start the operation. So one tells for all.
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

    /// Sends the KVO pairs around a change, in the order given, with no lock held.
    ///
    /// On Linux there is no KVO: Foundation has to know of `isReady` and `isFinished`, and our own observers of all.
    ///
    /// - Parameter change: makes the change; tells what has to know of it.
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

// MARK: What has to know

extension OperationState {
    /// What is told of a change of state.
    enum NotificationTargets {
        /// Only the library holds the operation. On Linux telling Foundation takes five locks.
        case none
        /// A queue, a dependent of another kind or a thread may wait for it.
        case foundation
        /// That, and observers of our own observation.
        case observers
    }

    var notificationTargets: NotificationTargets { isObserved ? .observers : isSeen ? .foundation : .none }

    /// Foundation is told from now on.
    ///
    /// - Returns: whether it has to be told of the end, which came before.
    mutating func becomeSeen() -> Bool {
        guard !isSeen else { return false }
        isSeen = true
        return machine.isFinished
    }
}

extension AnyRequestOperation {
    /// The operation, to be handed to code of the user's, which may wait for it or make another depend on it.
    func handedOut() -> Self {
        #if canImport(FoundationNetworking)
            if options.isInternal, state.withLock({ $0.becomeSeen() }) {
                didChangeValue(forKey: StateKey.isFinished.rawValue)
            }
        #endif
        return self
    }
}
