import Foundation

@testable import Convoy

/// The objects that the scheduler's state passes on, made once for all worlds.
enum SchedulerWorldObjects {
    static let count = 32

    private static let operations: [AnyRequestOperation] = (0..<count).map {
        RequestOperation(Request<Data>.stub("\($0)"), transport: StubServer().transport)
    }
    private static let indices = Dictionary(
        uniqueKeysWithValues: operations.enumerated().map { (ObjectIdentifier($1), $0) })

    /// More than a world takes: each joins with a key of its own.
    private static let keys: [CoalescingKey] = (0..<200).compactMap { _ in
        let request = Request<Data>.stub("shared").coalesced()
        return (try? PreparedRequest(request.core, baseURL: nil)).flatMap { CoalescingKey(request.core, $0) }
    }
    private static let numbers = Dictionary(uniqueKeysWithValues: keys.enumerated().map { (ObjectIdentifier($1), $0) })

    static func operation(_ index: Int) -> AnyRequestOperation { operations[index] }
    static func index(of operation: AnyRequestOperation) -> Int { indices[ObjectIdentifier(operation)] ?? 0 }
    static func key(_ number: Int) -> CoalescingKey { keys[number % keys.count] }
    static func number(of key: CoalescingKey) -> Int { numbers[ObjectIdentifier(key)] ?? 0 }
}
