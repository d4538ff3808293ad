// On Linux, a cancelled barrier of Foundation must live as long as the requests it waits for.
import Foundation

#if canImport(FoundationNetworking)
    extension AnyRequestOperation {
        /// Retains the operations that wait for this one until it has finished.
        ///
        /// `cancel()` calls it first.
        ///
        /// In swift-corelibs-foundation, `cancelAllOperations()` cancels a queue's requests and then its barriers. The
        /// barriers run at once and are freed. An operation keeps only unmanaged pointers to the operations that wait
        /// for it (`__downDependencies` in Operation.swift). Foundation dereferences them when the operation finishes.
        /// Other asynchronous operations, and operations that have not started, crash at that point. This method
        /// prevents the crash for requests.
        final func keepWaitingOperations() {
            // If no queue has read `isReady`, the operation is in no queue. Its waiting operations may already be
            // freed.
            guard state.withLock({ $0.wasAskedReadiness && !$0.machine.delivery.hasNotifiedEnd }) else { return }
            let waiting = FoundationFields.waitingOperations(of: self)
            guard !waiting.isEmpty else { return }
            let old = state.withLock { state -> [Operation] in
                // The list only grows, so the longer one contains all entries.
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
