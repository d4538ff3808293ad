import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Runs many threads at the same time; also run under the thread sanitizer.
///
/// The tests use seeds, a limited number of turns, and no clock.
@Suite(.serialized) struct StressTests {
    @Test(arguments: 0..<4)
    func aStormOfCancelSuspendPriorityAndDependencies(seed: Int) async {
        let count = 400
        let server = StubServer { exchange in
            // Half of the responses come from another thread, in pieces.
            guard exchange.request.url.path.hashValue & 1 == 0 else {
                return exchange.answer(200, body: Data(count: 8))
            }
            DispatchQueue.global().async {
                exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 8))
                exchange.send(Data(count: 4))
                exchange.send(Data(count: 4))
                exchange.finish()
            }
        }
        let check = LeakCheck()
        let outcomes = EventLog<Int>()
        do {
            let manager = server.manager(8, perHost: 5)
            let operations: [RequestOperation<Data>] = (0..<count).map { index in
                let operation = check.watch(manager.operation(Request<Data>.stub("\(index)", host: "h\(index % 3)")))
                operation.onFinish { _ in outcomes.record(index) }
                operation.onProgress { _ in _ = manager.why(operation) }
                return operation
            }
            await withTaskGroup(of: Void.self) { group in
                for thread in 0..<4 {
                    group.addTask {
                        var random = SeededGenerator(seed: UInt64(seed * 4 + thread))
                        for _ in 0..<600 {
                            let operation = operations[Int.random(in: 0..<count, using: &random)]
                            let other = operations[Int.random(in: 0..<count, using: &random)]
                            switch Int.random(in: 0..<10, using: &random) {
                            case 0: operation.cancel()
                            case 1: operation.suspend()
                            case 2, 3: operation.resume()
                            case 4: operation.queuePriority = .high
                            case 5: operation.addDependency(other, onFailure: .fail)
                            case 6: operation.removeDependency(other)
                            case 7: _ = (operation.description, manager.why(operation), operation.isReady)
                            case 8: manager.isSuspended.toggle()
                            default: manager.enqueue(operation)
                            }
                        }
                    }
                }
            }
            manager.isSuspended = false
            manager.enqueue(contentsOf: operations)
            for operation in operations { operation.resume() }
            await manager.drain()
            #expect(operations.count { !$0.isFinished } == 0)
            #expect(operations.count { $0.result == nil } == 0)
            #expect(manager.operations.isEmpty)
        }
        #expect(outcomes.events.sorted() == Array(0..<count))
        await check.expectAllGone()
    }

    @Test func operationsInAQueueOfTheCallersSurviveTheSameStorm() async {
        let server = StubServer()
        let outcomes = EventLog<Int>()
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 4
        let operations: [RequestOperation<Data>] = (0..<300).map { index in
            let operation = RequestOperation(Request<Data>.stub("\(index)"), transport: server.transport)
            operation.onFinish { _ in outcomes.record(index) }
            if index > 0, index % 3 == 0 {
                operation.addDependency(BlockOperation())
                operation.removeDependency(operation.dependencies[0])
            }
            return operation
        }
        for (index, operation) in operations.enumerated() where index % 5 == 4 {
            operation.addDependency(operations[index - 1])
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for operation in operations { queue.addOperation(operation) } }
            for thread in 0..<3 {
                group.addTask {
                    var random = SeededGenerator(seed: UInt64(thread))
                    for _ in 0..<200 { operations[Int.random(in: 0..<300, using: &random)].cancel() }
                }
            }
        }
        for operation in operations { _ = await operation.resultCode() }
        #expect(outcomes.events.sorted() == Array(0..<300))
        await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
        #expect(operations.count { !$0.isFinished } == 0)
    }

    @Test func batchesAndReadersSurviveCancellation() async {
        let manager = StubServer().manager(8, perHost: 8)
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<20 {
                group.addTask {
                    let batch = manager.batch((0..<200).map { Request<Data>.stub("\($0)") }, failFast: index % 2 == 0)
                    let reader = Task { for await _ in batch.progress {} }
                    batch.add(.stub("more"))
                    if index % 3 == 0 { batch.cancel() }
                    let results = await batch.results
                    #expect(results.count >= 200)
                    await reader.value
                }
            }
        }
        await manager.drain()
    }

    @Test func aThousandRealRequestsWithCancelsOverLoopback() async throws {
        let server = try TestServer(recording: .none)
        defer { server.shutDown() }
        server.respond { _ in .body(Data(repeating: 7, count: 2_000)) }
        let manager = RequestManager(configuration: .init(maxConcurrentOperationCount: 12, maxConcurrentPerHost: 6))
        let outcomes = EventLog<Int>()
        let operations = (0..<1_000).map { index in
            let operation = manager.operation(Request<Data>.get(server.url("/\(index)")))
            operation.onFinish { result in
                outcomes.record(index)
                if case .success(let response) = result { #expect(response.value.count == 2_000) }
            }
            return operation
        }
        manager.enqueue(contentsOf: operations)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<3 {
                group.addTask {
                    var random = SeededGenerator(seed: UInt64(thread))
                    for _ in 0..<100 {
                        let operation = operations[Int.random(in: 0..<1_000, using: &random)]
                        operation.suspend()
                        operation.resume()
                        if Bool.random(using: &random) { operation.cancel() }
                        await Task.yield()
                    }
                }
            }
        }
        await manager.drain()
        #expect(outcomes.events.sorted() == Array(0..<1_000))
        let failed = operations.compactMap(\.error).filter { $0.code != .cancelled }
        #expect(failed.isEmpty, "\(failed.map(\.description))")
    }
}
