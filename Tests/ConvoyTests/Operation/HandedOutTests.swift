import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    /// Tests operations of `send` and of batches, which belong to the library.
    ///
    /// An unobserved operation of this kind does not notify Foundation of its end.
    @Suite struct HandedOutTests {
        /// A queue with an operation that depends on `operation`; the log records when it ran.
        private func dependent(on operation: Operation) -> (OperationQueue, EventLog<Void>) {
            let (queue, ran) = (OperationQueue(), EventLog<Void>())
            let block = BlockOperation { ran.record(()) }
            block.addDependency(operation)
            queue.addOperation(block)
            return (queue, ran)
        }

        @Test(arguments: [false, true])
        func aDependentOfAnotherKindWaitsForARequestOfSend(byPredicate: Bool) async throws {
            let (server, manager) = StubServer.held().withManager()
            async let response = manager.send(Request.stub("a"))
            let exchange = await server.exchanges.wait()[0]
            var operations = byPredicate ? [] : manager.operations
            if byPredicate {
                manager.cancelAll { operation in
                    operations.append(operation)
                    return false
                }
            }
            let operation = try #require(operations.first)
            let (queue, ran) = dependent(on: operation)
            #expect(ran.count == 0)
            exchange.answer(200)
            await ran.wait()
            #expect(operation.isFinished)
            _ = try await response
            await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
        }

        @Test func oneThatIsHandedOutAfterItsEndHoldsNothingUp() async throws {
            let manager = StubServer { $0.answer(200) }.manager()
            let operation = RequestOperation(Request.stub("a"), of: manager.scheduler, isInternal: true)
            manager.scheduler.enqueue(operation)
            _ = try await operation.response()
            #expect(operation.isFinished)
            let (queue, ran) = dependent(on: operation.handedOut())
            await ran.wait()
            operation.waitUntilFinished()
            await queue.waitUntilAllOperationsAreFinished(within: .seconds(40))
        }
    }
#endif
