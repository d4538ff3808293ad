// A barrier of Foundation's that is cancelled must live as long as the requests it waits for, on Linux.
import Foundation

#if canImport(FoundationNetworking)
    extension AnyRequestOperation {
        /// Keeps what waits for this operation until it has finished; called by each `cancel()`, before anything else.
        ///
        /// `cancelAllOperations()` of swift-corelibs-foundation cancels a queue's requests, and then its barriers, which run at
        /// once and are freed. It keeps no reference from an operation to those that wait for it (`__downDependencies` in
        /// Operation.swift is unmanaged), and follows the pointers when the operation finishes. Any asynchronous operation, and
        /// any that has not started, crashes so; a request does not.
        final func keepWaitingOperations() {
            // An operation that no queue has asked is in none. What waits for it may have been freed.
            guard state.withLock({ $0.wasAskedReadiness && !$0.machine.delivery.hasNotifiedEnd }) else { return }
            let waiting = FoundationFields.waitingOperations(of: self)
            guard !waiting.isEmpty else { return }
            let old = state.withLock { state -> [Operation] in
                // It only grows: the longer list has them all.
                guard !state.machine.delivery.hasNotifiedEnd, waiting.count > state.waitingOperations.count else {
                    return []
                }
                defer { state.waitingOperations = waiting }
                return state.waitingOperations
            }
            withExtendedLifetime(old) {}
        }
    }
#endif
