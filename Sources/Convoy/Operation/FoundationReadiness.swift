// Shows Foundation that a request is blocked. On Linux, a hidden dependency does this.
import Foundation

extension AnyRequestOperation {
    #if canImport(FoundationNetworking)
        /// Closes or opens the gate.
        ///
        /// The gate is a hidden operation. While this operation is blocked in a queue, the gate is one of its
        /// dependencies in Foundation.
        ///
        /// At each event of a queue, swift-corelibs-foundation reads `isReady` of every operation without unfinished
        /// dependencies, and retains the operation during the read. Without gates, these reads take half of the time of
        /// a chain of 3,000 links.
        ///
        /// - Returns: whether the gate was closed or opened. If so, Foundation and the observers have been notified.
        /// - Precondition: one thread at a time calls this method.
        func notifyByGate() -> Bool {
            let isBlocked = isBlocked
            let mayClose = isBlocked && isInQueue
            let (opened, closed, old) = state.withLock { state -> (Operation?, Operation?, Operation?) in
                if let relatives = state.relatives, let gate = relatives.gate {
                    guard !isBlocked else { return (nil, nil, nil) }
                    (relatives.gate, relatives.openedGate) = (nil, gate)
                    return (gate, nil, nil)
                }
                guard mayClose else { return (nil, nil, nil) }
                let relatives = state.makeRelatives()
                defer { relatives.openedGate = nil }
                (relatives.gate, state.isClosingGate, state.wasUnready) = (Operation(), true, true)
                return (nil, relatives.gate, relatives.openedGate)
            }
            if let closed {
                super.addDependency(closed)
                state.withLock { $0.isClosingGate = false }
            }
            // Without this call, Foundation would retain the old gate. The operation does not start now, because the
            // new gate blocks it.
            if let old { super.removeDependency(old) }
            opened?.start()
            guard closed != nil || opened != nil else { return false }
            if isObservedSynchronously { notifyStateObservers(\.isReady) }
            return true
        }

        /// Notes that a queue read `isReady` while the operation was blocked, and closes the gate.
        ///
        /// The queue may hold its lock now, or be called on a transport's thread. So another thread closes the gate.
        func noteUnready() {
            let isFirst = state.withLock { state in
                state.wasUnready = true
                // During a handover, `handOver` sends the notification at the end.
                guard state.machine.handover == .none, !state.notesUnready else { return false }
                state.notesUnready = true
                return true
            }
            guard isFirst else { return }
            context.taskControl.async { [self] in
                state.withLock { $0.notesUnready = false }
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
            guard state.withLock({ $0.wasAskedReadiness && !$0.machine.delivery.hasNotifiedEnd }) else { return }
            let waiting = FoundationFields.waitingOperations(of: self)
            guard !waiting.isEmpty else { return }
            let old = state.withLock { state -> [Operation] in
                // Foundation's list of waiting operations only grows, so the longer copy contains all entries.
                let known = state.relatives?.waiting.count ?? 0
                guard !state.machine.delivery.hasNotifiedEnd, waiting.count > known else { return [] }
                let relatives = state.makeRelatives()
                defer { relatives.waiting = waiting }
                return relatives.waiting
            }
            withExtendedLifetime(old) {}
        }

        var isInQueue: Bool { FoundationFields.queue(of: self) != nil }

        func isInQueue(otherThan other: OperationQueue?) -> Bool {
            FoundationFields.queue(of: self).map { $0 !== other } ?? false
        }
    #else
        func notifyByGate() -> Bool { false }
        func noteUnready() {}
        /// On Apple platforms, only a queue reads `isReady`, except the caller.
        var isInQueue: Bool { state.withLock { $0.wasAskedReadiness } }
        func isInQueue(otherThan other: OperationQueue?) -> Bool { other == nil && isInQueue }
    #endif

    /// Only barriers add dependencies to Foundation's own list.
    var isBehindBarrier: Bool { !super.isReady }
}

/// The operations of swift-corelibs-foundation that a request refers to.
///
/// Used only under the operation's lock. The class is not `Sendable`, so the compiler prevents its use outside the
/// lock.
final class FoundationRelatives {
    /// The closed gate and the last opened gate; see ``AnyRequestOperation/notifyByGate()``.
    var (gate, openedGate): (Operation?, Operation?)
    /// The operations that wait for this one in Foundation and must not be freed before it finishes.
    var waiting: [Operation] = []
}

extension OperationState {
    mutating func makeRelatives() -> FoundationRelatives {
        let made = relatives ?? FoundationRelatives()
        relatives = made
        return made
    }
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
