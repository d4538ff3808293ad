// The code of the page "Event streams that reconnect", against a server.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct EventStreamsPageTests {
    private let server: TestServer
    private let manager: RequestManager

    init() throws {
        server = try TestServer()
        manager = RequestManager(configuration: .init(baseURL: server.url()))
    }

    private func stream(_ text: String) -> Reply {
        .status(200, headerFields: [("Content-Type", "text/event-stream")], body: text)
    }

    @Test func streams() async throws {
        defer { server.shutDown() }
        let text = "retry: 10\nid: 1\ndata: a\n\n"
        server.enqueue([stream(text), .status(204), stream("data: b\n\n"), .status(204), stream("data: c\n\n")])
        var shown: [String] = []
        func show(_ type: String, _ data: String) { shown.append(data) }
        for try await event in manager.events(of: .get("news")) {
            show(event.type, event.data)
        }
        let patient = RetryPolicy(maxRetries: 1_000, maxDelay: .seconds(60))
        let news = manager.events(of: .get("news"), reconnecting: patient)
        var reader = news.makeAsyncIterator()
        #expect(try await reader.next()?.data == "b")
        let quiet = Request<Data>.get("news").idleTimeout(.seconds(600))
        #expect(quiet.defect == nil)
        #expect(shown == ["a"])
        #expect(server.recordedRequests[1].value(of: "Last-Event-ID") == "1")
    }

    @Test func streamsOfOneHostHaveAManagerOfTheirOwn() {
        defer { server.shutDown() }
        var configuration = RequestManager.Configuration()
        configuration.maxConcurrentPerHost = 64
        configuration.maxConcurrentOperationCount = 64
        let streams = RequestManager(configuration: configuration)
        #expect(streams.configuration.maxConcurrentPerHost == 64)
    }

    @Test func aRunThatResumes() async throws {
        defer { server.shutDown() }
        server.enqueue([stream("retry: 10\nid: 8\ndata: a\n\n"), .status(204), stream("data: Hello\n\n")])
        var shown: [String] = []
        func show(_ type: String, _ data: String) { shown.append(data) }
        var storedID: String? = "7"
        var request = Request<Data>.get("news")
        if let last = storedID { request = request.header("Last-Event-ID", last) }
        for try await event in manager.events(of: request) {
            show(event.type, event.data)
            storedID = event.lastEventID
        }
        let answer = Request<Data>.post("complete", json: ["prompt": "Hello"])
        for try await part in manager.events(of: answer, reconnecting: .never) {
            show(part.type, part.data)
        }
        #expect(shown == ["a", "Hello"])
        #expect(storedID == "8")
        #expect(server.recordedRequests.map { $0.value(of: "Last-Event-ID") } == ["7", "8", nil])
    }
}
