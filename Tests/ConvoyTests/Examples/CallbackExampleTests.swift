import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests a block around an asynchronous POST.
@Suite struct CallbackExampleTests {
    /// The callback is called once for each call: after a response, without a connection, and after a time-out.
    @Test func onePostWithOneCallbackOnEveryPath() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(Reply.chunked([Data("saved ".utf8), Data("ünder 7".utf8)]))
        server.enqueue(Reply.status(200).stalling())
        let manager = RequestManager()
        let told = EventLog<(text: String?, code: RequestError.Code?)>()

        func post(_ url: URL, _ parameters: String, whenDone: @escaping @Sendable (String?, RequestError?) -> Void) {
            let request = Request<String>.post(url)
                .body(parameters, contentType: "application/x-www-form-urlencoded").idleTimeout(.seconds(1))
            manager.enqueue(request).onFinish { whenDone(try? $0.get().value, $0.failure as? RequestError) }
        }

        for url in [server.url("/a"), server.url("/b"), URL(fileURLWithPath: "/").absoluteURL] {
            post(url, "name=Ann&age=7") { text, error in told.record((text, error?.code)) }
        }
        await manager.drain()
        let events = await told.wait(count: 3)
        #expect(events.count { $0.text == "saved ünder 7" && $0.code == nil } == 1)
        #expect(events.count { $0.text == nil && $0.code == .timedOut } == 1)
        #expect(events.count { $0.text == nil && $0.code == .invalidRequest } == 1)
        let request = try await server.takeRequest()
        #expect(request.method == "POST")
        #expect(request.bodyText == "name=Ann&age=7")
    }

    /// A second response, after a redirect, begins with an empty buffer.
    @Test func theBufferIsEmptiedByEachResponse() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(302, headerFields: [("Location", "/there")], body: "gone"))
        server.enqueue(.status(200, body: "here"))
        let response = try await RequestManager().send(Request<String>.get(server.url()))
        #expect(response.value == "here")
    }
}
