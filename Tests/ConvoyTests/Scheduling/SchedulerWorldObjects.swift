import Foundation

@testable import Convoy

/// The objects that the scheduler's state refers to, created once for all worlds.
enum SchedulerWorldObjects {
    static let count = 32

    private static let operations: [RequestOperation<Data>] = (0..<count).map {
        RequestOperation(Request<Data>.stub("\($0)"), transport: StubServer().transport)
    }
    private static let indices = Dictionary(
        uniqueKeysWithValues: operations.enumerated().map { (ObjectIdentifier($1), $0) })

    static func operation(_ index: Int) -> RequestOperation<Data> { operations[index] }
    static func index(of operation: AnyRequestOperation) -> Int { indices[ObjectIdentifier(operation)] ?? 0 }

    /// A new key, equal to the others of its group.
    static func key(of group: Int) -> CoalescingKey? {
        let request = Request<Data>.stub("shared-\(group)").coalesced()
        return (try? PreparedRequest(request.core, baseURL: nil)).flatMap { CoalescingKey(request.core, $0) }
    }
}
