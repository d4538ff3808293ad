// Tests the number of connections that a transport opens.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Runs each test in a separate process.
///
/// A shared transport closes idle connections when other tests use other hosts, and then opens more connections than
/// a single test would.
@Suite struct TransportConnectionTests {
    @Test(arguments: ConformingTransport.all)
    func sequentialRequestsUseOneConnection(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            endProcessIfStuck()
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { .status(200, body: $0.path) }
            for number in 1...5 {
                let response = try await Sending(Request<String>.get(server.url("/\(number)")), over: transport)
                    .response()
                #expect(response.value == "/\(number)")
                #expect(try await server.takeRequest().numberOnConnection == number)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func answersWithoutABodyLeaveTheConnectionClean(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            endProcessIfStuck()
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
            server.enqueue([.status(204), .status(304, headerFields: [("Content-Length", "5")]), .status(200)])
            for statusCode in [204, 304, 200] {
                let request = Request<Data>.get(server.url()).acceptableStatusCodes(.any)
                #expect(try await Sending(request, over: transport).response().statusCode == statusCode)
            }
            server.respond { _ in .status(200, headerFields: [("X-A", "1")], body: "hello") }
            _ = try await Sending(Request<Void>.head(server.url()), over: transport).response()
            _ = try await Sending(Request<Data>.post(server.url()).body(Data("x".utf8)), over: transport).response()
            _ = try await Sending(Request<Data>.get(server.url()).acceptableStatusCodes(.codes([404])), over: transport)
                .error()
            #expect(try await Sending(Request<String>.get(server.url()), over: transport).response().value == "hello")
            #expect(server.requestCount == 7)
            #expect(server.connectionCount == 1)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func limitPerHostOfAManagerHoldsOnTheWire(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            endProcessIfStuck()
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
            let gate = Gate()
            server.route("/fence") { _ in .status(200) }
            server.respond { Reply.status(200, body: $0.path).stalling(until: gate) }
            let manager = RequestManager(
                configuration: .init(
                    maxConcurrentOperationCount: 32, maxConcurrentPerHost: 6, transport: .custom(transport)))
            let results = EventLog<(Int, String?)>()
            for number in 0..<300 {
                manager.enqueue(Request<String>.get(server.url("/\(number)"))) {
                    results.record((number, try? $0.get().value))
                }
            }
            try await gate.reached(count: 6)
            #expect(server.openConnectionCount == 6)
            // A seventh request would have been sent before this request.
            _ = try await Sending(Request<Data>.get(server.url("/fence")), over: transport).response()
            #expect(server.requestCount == 7)
            gate.open()
            for (number, body) in await results.wait(count: 300, within: .seconds(40)) { #expect(body == "/\(number)") }
            #expect(server.requestCount == 301)
        }
    }

    // MARK: Connections that the server has closed

    @Test(arguments: ConformingTransport.all)
    func postOverAConnectionTheServerHasClosedArrivesWholeOnce(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            endProcessIfStuck()
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { _ in .status(200) }
            for _ in 1...10 {
                _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                _ = try await server.takeRequest()
                server.disconnectAll()
                try await server.connectionsClosed()
                try await expectWholeOrRetryable(transport, server)
            }
        }
    }

    /// The server closes a reused connection without a response when the request arrives.
    @Test(arguments: ConformingTransport.all, [Reply.Moment.requestStart, .requestBody(afterBytes: 1)])
    func postMetByACloseArrivesWholeOnce(_ subject: ConformingTransport, _ moment: Reply.Moment) async {
        let isAtStart = moment == .requestStart
        await #expect(processExitsWith: .success) { [name = subject.name as String, isAtStart = isAtStart as Bool] in
            endProcessIfStuck()
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
            let moment = isAtStart ? Reply.Moment.requestStart : .requestBody(afterBytes: 1)
            for _ in 1...10 {
                server.enqueue([.status(200), Reply.status(200).performing(.close, at: moment), .status(200)])
                _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                _ = try await server.takeRequest()
                try await expectWholeOrRetryable(transport, server)
                // The third reply remains if the request was not sent again.
                if server.queuedReplyCount > 0 {
                    _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                    _ = try await server.takeRequest()
                }
            }
        }
    }
}

/// Posts a body; after a success it has arrived complete exactly once.
///
/// After a failure no complete request has arrived, and the error is retryable.
private func expectWholeOrRetryable(_ transport: any Transport, _ server: TestServer) async throws {
    let body = Reply.pattern(range: 0..<100_000)
    let post = Request<Data>.post(server.url("/post")).body(body).idleTimeout(.seconds(5))
    let result = try await Sending(post, over: transport).result()
    var whole: [RecordedRequest] = []
    while !server.recordedRequests.isEmpty {
        let request = try await server.takeRequest()
        if request.isBodyComplete { whole.append(request) }
    }
    switch result {
    case .success:
        #expect(whole.map(\.body) == [body])
        #expect(whole.map { $0.value(of: "Content-Length") } == ["\(body.count)"])
    case .failure(let error):
        #expect(error.isRetryable, "\(error)")
        #expect(whole.isEmpty)
    }
}
