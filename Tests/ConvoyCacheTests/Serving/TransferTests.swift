import ConvoyTesting
import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCache

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// One attempt by itself, over a transport that the test answers for.
@Suite(.timeLimit(.minutes(2)))
struct TransferTests {
    /// Counts what is asked of it.
    private final class FakeTask: TransferTask {
        let calls = Locked<[String]>([])

        func resume() { calls.withLock { $0.append("resume") } }
        func suspend() { calls.withLock { $0.append("suspend") } }
        func cancel() { calls.withLock { $0.append("cancel") } }
        func makeSessionTask() -> URLSessionTask { URLSession.shared.dataTask(with: URL(filePath: "/")) }
    }

    private final class FakeTransport: DirectTransport {
        let tasks = Locked<[FakeTask]>([])
        let clients = Locked<[any TransportClient]>([])
        /// Called while a task is made.
        let whenMade = Locked<@Sendable (Int) -> Void>({ _ in })
        var pausesInPlace: Bool { true }

        func makeTask(for _: PreparedRequest, client _: any TransportClient) throws(RequestError) -> URLSessionTask {
            throw RequestError(.invalidRequest, "it makes no tasks")
        }

        func makeTransfer(
            for _: PreparedRequest, client: any TransportClient
        ) throws(RequestError) -> any TransferTask {
            let task = FakeTask()
            clients.withLock { $0.append(client) }
            let count = tasks.withLock { tasks in
                tasks.append(task)
                return tasks.count
            }
            whenMade.withLock { $0 }(count)
            return task
        }
    }

    private final class FakeClient: TransportClient {
        let heads = Locked<[ResponseHead]>([])
        let ends = Locked<[RequestError?]>([])

        func didReceive(_ head: ResponseHead) { heads.withLock { $0.append(head) } }
        func didReceive(_: Data) -> Bool { true }
        func didHold() {}
        func didSend(totalBytes _: Int64) {}
        func didFinish(_ error: RequestError?) { ends.withLock { $0.append(error) } }
    }

    private let transport = FakeTransport()
    private let client = FakeClient()
    private let cache = HTTPCache.memory(capacity: 1 << 20)
    private let clock = VirtualClock()

    private func makeRequest() throws -> PreparedRequest {
        try Request<Data>.get("http://host/a").core.prepared(RequestDefaults())
    }

    private func makeTransfer(_ request: PreparedRequest) throws -> any TransferTask {
        let query = CacheQuery(request, nil, keepsCoding: false, clock: clock)
        let exchange = try #require(cache.begin(query))
        return try exchange.makeTransfer(for: request, client: client, over: CacheNetwork(transport, transport))
    }

    private func store(_ fields: HeaderFields, _ body: String = "body") throws {
        let transfer = try makeTransfer(makeRequest())
        transfer.resume()
        let task = try #require(transport.clients.withLock { $0.last })
        let expected = Int64(body.utf8.count)
        let url = try makeRequest().url
        task.didReceive(ResponseHead(statusCode: 200, headerFields: fields, url: url, expectedBytes: expected))
        _ = task.didReceive(Data(body.utf8))
        task.didFinish(nil)
    }

    @Test func requestThatIsSentAgainStaysSuspended() throws {
        try store(["Cache-Control": "max-age=1", "ETag": "\"a\""])
        clock.advance(by: .seconds(5))
        let transfer = try makeTransfer(makeRequest())
        transfer.resume()
        transport.whenMade.withLock { $0 = { _ in transfer.suspend() } }
        // The 304 is for another response than the one that is stored.
        let network = try #require(transport.clients.withLock { $0.last })
        network.didReceive(
            ResponseHead(statusCode: 304, headerFields: ["ETag": "\"b\""], url: try makeRequest().url))
        network.didFinish(nil)
        let again = try #require(transport.tasks.withLock { $0.last })
        #expect(transport.tasks.withLock { $0.count } == 3)
        #expect(again.calls.withLock { $0 }.isEmpty)
        transfer.resume()
        #expect(again.calls.withLock { $0 } == ["resume"])
    }
}
