// Fields of Foundation's operations on Linux that have no public accessor.
import Foundation

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

    /// The barriers before a request in its queue, including those that have run.
    static func barriers(before operation: AnyRequestOperation) -> [Operation] {
        let dependencies = read(operation) { $0("__dependencies") as? [Operation] } ?? []
        // The gate of `notifyByGate()` is a plain `Operation`. Dependencies on other operations are in the library's
        // graph.
        return dependencies.filter { type(of: $0) != Operation.self }
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
