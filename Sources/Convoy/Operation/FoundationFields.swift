// What Foundation knows of an operation and has no call for, on Linux.
import Foundation

/// Stored properties of Foundation's `Operation` that have no other access, read by reflection; none where they have other
/// names, as on Apple platforms.
enum FoundationFields {
    /// The operations that wait for an operation that is in a queue, barriers included.
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

    /// The barriers of its queue that a request was added behind, those that have run included.
    static func barriers(before operation: AnyRequestOperation) -> [Operation] {
        let dependencies = read(operation) { $0("__dependencies") as? [Operation] } ?? []
        // A gate is a plain operation, and the dependencies on others stand in our own graph.
        return dependencies.filter { type(of: $0) != Operation.self }
    }

    /// The queue that an operation is in.
    static func queue(of operation: Operation) -> OperationQueue? {
        // An operation in a queue retains it.
        read(operation) { ($0("__queue") as? Unmanaged<OperationQueue>)?.takeUnretainedValue() }
    }

    // Found on an operation of its own: reading others of a shared one without its lock would race.
    private static let places = Dictionary(
        Mirror(reflecting: Operation()).children.enumerated().map { ($1.label ?? "", $0) },
        uniquingKeysWith: { first, _ in first })

    /// - Parameter body: gets the values of the fields by name. Called under Foundation's own lock of them, which it never
    ///   holds while it calls an override.
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
