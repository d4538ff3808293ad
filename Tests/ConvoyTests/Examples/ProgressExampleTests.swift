import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests a manager with GET and POST, progress, success and failure.
@Suite struct ProgressExampleTests {
    struct Page: Decodable, Sendable { let name: String }

    /// The complete response is decoded once, and progress is reported before that.
    @Test func manyChunksAreOneObject() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(
            Reply.chunked(
                ["{\"na", "me\":", "\"An", "n\"}"].map { Data($0.utf8) },
                headerFields: [("Content-Type", "application/json")]))
        let progress = EventLog<Int64>()
        let (success, failure) = (EventLog<String>(), EventLog<RequestError>())
        let manager = RequestManager()
        let operation = manager.operation(
            Request<Page>.get(server.url("/page"), query: ["tags": ["a", "b"], "q": "ü &="]))
        operation.onProgress { progress.record($0.download.completedBytes) }
        operation.onFinish { result in
            switch result {
            case .success(let response): success.record(response.value.name)
            case .failure(let error): failure.record(error)
            }
        }
        manager.enqueue(operation)
        #expect(await success.wait() == ["Ann"])
        await manager.drain()
        #expect(progress.events.last == 14)
        #expect(failure.count == 0)
        #expect(try await server.takeRequest().query == "q=%C3%BC%20%26%3D&tags%5B%5D=a&tags%5B%5D=b")
    }

    /// Two concurrent requests call only their own callbacks.
    ///
    /// The cancelled request fails without a response.
    @Test func twoRequestsKeepTheirCallbacksApart() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let gate = Gate()
        server.route("/slow") { _ in Reply.status(200, body: "slow").stalling(until: gate) }
        server.route("/fast") { _ in Reply.status(200, body: "fast") }
        let manager = RequestManager()
        let slow = manager.enqueue(Request<String>.get(server.url("/slow")))
        let fast = manager.enqueue(Request<String>.get(server.url("/fast")))
        #expect(try await fast.response().value == "fast")
        slow.cancel()
        let error = await #expect(throws: RequestError.self) { try await slow.response() }
        #expect(error?.code == .cancelled)
        #expect(error?.response == nil)
        gate.open()
    }
}
