// How Foundation sees a request: whether it is ready, its queue, and the operations that wait for it.
import Foundation

extension AnyRequestOperation {
    #if canImport(FoundationNetworking)
        // If a queue reads `isReady` as true outside of a notification, after it had read false,
        // swift-corelibs-foundation may have stored the false value last, and starts the operation only at its next
        // event. The notification needs another thread, because the queue may hold its lock now, or be called on a
        // transport's thread.
        func confirmReadiness() {
            let isFirst = withLock { state in
                // Another thread notifies now. It notifies once more, because Foundation tests an operation once after
                // an event, and may have done so with the old value.
                if let notifier = state.readinessNotifier, notifier != ObjectIdentifier(Thread.current) {
                    state.readinessChanges &+= 1
                    return false
                }
                // During a handover, `handOver` sends the notification at the end.
                guard state.readinessChanges == 0, state.handover == .none, state.isWaitingToStart,
                    !state.confirmsReadiness
                else { return false }
                state.confirmsReadiness = true
                return true
            }
            guard isFirst else { return }
            scheduler.taskControl.async { [self] in
                withLock { $0.confirmsReadiness = false }
                if isInQueue { notifyReadiness() }
            }
        }

        // In swift-corelibs-foundation, `cancelAllOperations()` cancels a queue's requests and then its barriers, which
        // run at once and are freed. An operation keeps only unmanaged pointers to the operations that wait for it
        // (`__downDependencies` in Operation.swift), and Foundation dereferences them when it finishes. Other
        // asynchronous operations crash at that point. So a request retains the operations that wait for it.
        final func keepWaitingOperations() {
            // If no queue has read `isReady`, the operation is in no queue. Its waiting operations may already be
            // freed.
            guard withLock({ $0.wasAskedReadiness && !$0.delivery.hasNotifiedEnd }) else { return }
            let waiting = FoundationFields.waitingOperations(of: self)
            guard !waiting.isEmpty else { return }
            let old = withLock { state -> [Operation] in
                // Foundation's list of waiting operations only grows, so the longer copy contains all entries.
                guard !state.delivery.hasNotifiedEnd, waiting.count > state.waitingOperations.count else {
                    return []
                }
                defer { state.waitingOperations = waiting }
                return state.waitingOperations
            }
            withExtendedLifetime(old) {}
        }

        var isInQueue: Bool { FoundationFields.queue(of: self) != nil }

        func isInQueue(otherThan other: OperationQueue?) -> Bool {
            FoundationFields.queue(of: self).map { $0 !== other } ?? false
        }
    #else
        func confirmReadiness() {}
        /// On Apple platforms, only a queue reads `isReady`, except the caller.
        var isInQueue: Bool { withLock { $0.wasAskedReadiness } }
        func isInQueue(otherThan other: OperationQueue?) -> Bool { other == nil && isInQueue }
    #endif

    /// Only barriers add dependencies to Foundation's own list.
    var isBehindBarrier: Bool { !super.isReady }
}

/// Reads stored properties of Foundation's `Operation` by reflection; the results are empty where their names differ.
enum FoundationFields {
    static func waitingOperations(of operation: Operation) -> [Operation] {
        read(operation) { value in
            guard let queue = value("__queue"), !Mirror(reflecting: queue).children.isEmpty,
                let waiting = value("__downDependencies")
            else { return [] }
            return Mirror(reflecting: waiting).children.compactMap { element in
                let reference = Mirror(reflecting: element.value).children.first?.value as? Unmanaged<Operation>
                return reference?.takeUnretainedValue()
            }
        } ?? []
    }

    static func queue(of operation: Operation) -> OperationQueue? {
        // The pointer is valid, because an operation in a queue retains the queue.
        read(operation) { ($0("__queue") as? Unmanaged<OperationQueue>)?.takeUnretainedValue() }
    }

    // The index of each field by name, read from a new operation. Reading a shared operation without its lock would be
    // a data race.
    private static let places = Dictionary(
        Mirror(reflecting: Operation()).children.enumerated().map { ($1.label ?? "", $0) },
        uniquingKeysWith: { first, _ in first })

    /// - Parameter body: receives the values of the fields by name. It runs under Foundation's own lock of these
    ///   fields, which Foundation never holds while it calls an override.
    private static func read<Result>(_ operation: Operation, _ body: ((String) -> Any?) -> Result?) -> Result? {
        var mirror = Mirror(reflecting: operation)
        while mirror.subjectType != Operation.self {
            guard let next = mirror.superclassMirror else { return nil }
            mirror = next
        }
        let children = mirror.children
        func value(_ name: String) -> Any? {
            guard let place = places[name], place < children.count else { return nil }
            return children[children.index(children.startIndex, offsetBy: place)].value
        }
        guard let lock = value("__lock") as? NSLock else { return nil }
        return lock.withLock { body(value) }
    }
}
