import Foundation
import Testing

@testable import Convoy

@Suite struct QualityOfServiceTests {
    private final class Queue: OperationQueue, @unchecked Sendable {
        // @unchecked: the superclass `OperationQueue` is `@unchecked Sendable`.
        let added = EventLog<QualityOfService>()

        override func addOperation(_ operation: Operation) {
            added.record(operation.qualityOfService)
            super.addOperation(operation)
        }

        override func addOperation(_ block: @escaping @Sendable () -> Void) {
            added.record(.default)
            super.addOperation(BlockOperation(block: block))
        }
    }

    /// The label of the current queue; Swift on Linux has no function for it.
    private static var queueName: String {
        typealias Label = @convention(c) (OpaquePointer?) -> UnsafePointer<CChar>?
        guard let function = dlsym(dlopen(nil, RTLD_NOW), "dispatch_queue_get_label"),
            let label = unsafeBitCast(function, to: Label.self)(nil)
        else { return "" }
        return String(cString: label)
    }

    private func decoding(_ names: EventLog<String>) -> Request<Data> {
        Request<Data>.stub("a").decoding { body, _ in
            names.record(Self.queueName)
            return body
        }
    }

    @Test func callbacksAndDecodersRunInTheQualityOfTheRequest() async throws {
        let (server, names) = (StubServer(), EventLog<String>())
        let manager = server.manager()
        for request in [decoding(names), decoding(names).qualityOfService(.utility)] {
            let operation = manager.operation(request)
            operation.onFinish { _ in names.record(Self.queueName) }
            manager.enqueue(operation)
            _ = try await operation.response()
        }
        await manager.drain()
        let isUtility = await names.wait(count: 4).map { $0.hasPrefix("convoy.executor.utility.") }
        #expect(isUtility == [false, false, true, true])
        #expect(names.events.allSatisfy { $0.hasPrefix("convoy.executor.") })
    }

    @Test func aCallersQueueReceivesIt() async throws {
        let queue = Queue()
        let manager = StubServer().manager(callbacks: .operationQueue(queue))
        let operations = (0..<3).map { _ in manager.operation(Request<Data>.stub("a").qualityOfService(.background)) }
        // A link has the quality of the request that it builds, unless it has its own.
        let links = (0..<2).map { _ in
            manager.operation(after: operations[0]) { _ in Request<Data>.stub("link").qualityOfService(.utility) }
        }
        // The caller may set the operation's property, as with Foundation's operations.
        operations[1].qualityOfService = .userInitiated
        operations[2].qualityOfService = .default
        links[1].qualityOfService = .userInteractive
        #expect(operations.map(\.qualityOfService) == [.background, .userInitiated, .default])
        for (count, operation) in (operations + links).enumerated() {
            operation.onFinish { _ in }
            manager.enqueue(operation)
            await queue.added.wait(count: count + 1)
        }
        #expect(queue.added.events == [.background, .userInitiated, .default, .utility, .userInteractive])
        await manager.drain()
    }

    @Test(arguments: [
        (QualityOfService.userInteractive, DispatchQoS.userInteractive), (.userInitiated, .userInitiated),
        (.utility, .utility), (.background, .background), (.default, .unspecified),
    ])
    func dispatchIsGivenTheSame(_ quality: QualityOfService, expected: DispatchQoS) {
        #expect(DispatchQoS(quality) == expected)
    }
}
