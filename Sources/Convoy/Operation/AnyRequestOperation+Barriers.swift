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

    /// Stored properties of Foundation's `Operation` that have no other access, read by reflection; none where they have
    /// other names.
    enum FoundationFields {
        // Found on an operation of its own: reading others of a shared one without its lock would race.
        private static let places = Dictionary(
            Mirror(reflecting: Operation()).children.enumerated().map { ($1.label ?? "", $0) },
            uniquingKeysWith: { first, _ in first })

        /// The operations that wait for an operation that is in a queue, barriers included.
        static func waitingOperations(of operation: Operation) -> [Operation] {
            var mirror = Mirror(reflecting: operation)
            while mirror.subjectType != Operation.self {
                guard let next = mirror.superclassMirror else { return [] }
                mirror = next
            }
            let children = mirror.children
            func value(_ name: String) -> Any? {
                guard let place = places[name], place < children.count else { return nil }
                return children[children.index(children.startIndex, offsetBy: place)].value
            }
            // Foundation's own lock of these fields, which it never holds while it calls an override.
            guard let lock = value("__lock") as? NSLock else { return [] }
            return lock.withLock {
                guard let queue = value("__queue"), !Mirror(reflecting: queue).children.isEmpty,
                    let waiting = value("__downDependencies")
                else { return [] }
                return Mirror(reflecting: waiting).children.compactMap { element in
                    let reference = Mirror(reflecting: element.value).children.first?.value as? Unmanaged<Operation>
                    return reference?.takeUnretainedValue()
                }
            }
        }
    }
#endif
