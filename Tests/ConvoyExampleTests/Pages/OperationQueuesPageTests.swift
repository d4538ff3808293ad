// The code of the page "Your own operation queue", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct OperationQueuesPageTests {
    private func makeManager(_ queue: OperationQueue) -> RequestManager {
        let stub = StubTransport()
        stub.route("/page", replies: .status(200))
        return RequestManager(
            queue: queue,
            configuration: .init(baseURL: URL(string: "http://example.com"), transport: .custom(stub)))
    }

    @Test func aQueue() {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 4
        let manager = RequestManager(queue: queue)
        #expect(manager.queue === queue)
    }

    @Test func otherOperations() async throws {
        let queue = OperationQueue()
        let manager = makeManager(queue)
        let page = manager.operation(Request<Data>.get("page"))
        let cleanUp = BlockOperation { print("the page is here") }
        cleanUp.addDependency(page)
        queue.addOperation(page)
        queue.addOperation(cleanUp)
        #expect(try await page.response().statusCode == 200)
        await withCheckedContinuation { continuation in
            queue.addBarrierBlock { continuation.resume() }
        }
        #expect(cleanUp.isFinished)
    }

    @Test func theStateIsObserved() async throws {
        let queue = OperationQueue()
        let manager = makeManager(queue)
        let request = manager.operation(Request<Data>.get("page"))
        let observation = request.observeState(\.isFinished) { _, _ in
            print(request.error?.message ?? "it succeeded")
        }
        let finished = AsyncStream<Bool>.makeStream()
        let second = request.observeState(\.isFinished, options: .new) { _, change in
            finished.continuation.yield(change.newValue ?? false)
        }
        manager.enqueue(request)
        await withCheckedContinuation { continuation in
            queue.addBarrierBlock { continuation.resume() }
        }
        for await isFinished in finished.stream {
            #expect(isFinished)
            break
        }
        for observation in [observation, second] { observation.invalidate() }
    }
}
