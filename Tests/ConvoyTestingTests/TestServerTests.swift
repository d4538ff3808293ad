import Foundation
import Testing

@testable import ConvoyTesting

@Suite struct TestServerTests {
    private let server: TestServer

    init() throws { server = try TestServer() }

    @Test func queueComesBeforeRoutesAndRoutesBeforeFallback() throws {
        server.route("/a") { _ in .status(200, body: "route") }
        server.respond { .status(200, body: "fallback " + $0.path) }
        server.enqueue([.status(200, body: "first"), .status(200, body: "second")])
        #expect(server.queuedReplyCount == 2)
        let bodies = try server.bodies(["/x", "/a", "/a?q=1", "/b%20c?q"])
        #expect(bodies == ["first", "second", "route", "fallback /b%20c"])
        #expect(server.queuedReplyCount == 0)
    }

    @Test func aRouteWithAQueryAnswersOnlyThatQuery() throws {
        server.route("/a") { _ in .status(200, body: "any") }
        server.route("/a?page=2") { _ in .status(200, body: "second") }
        server.route("/b?") { _ in .status(200, body: "empty") }
        let bodies = try server.bodies([
            "/a", "/a?page=2", "/a?page=3", "http://127.0.0.1/a?page=2", "/b?", "/b", "/b?c",
        ])
        #expect(bodies == ["any", "second", "any", "second", "empty", "", ""])
        #expect(try server.client("/b").readResponse().statusLine == "HTTP/1.1 404 Not Found")
    }

    @Test func keepAliveNumbersConnectionsAndRequests() async throws {
        server.respond { _ in .status(204) }
        let (first, second) = (try RawClient(server), try RawClient(server))
        for client in [first, first, second] {
            client.get("/")
            _ = try client.readResponse()
        }
        for numbers in [(1, 1), (1, 2), (2, 1)] {
            let request = try await server.takeRequest()
            #expect((request.connectionNumber, request.numberOnConnection) == numbers)
        }
        #expect(server.connectionCount == 2)
        #expect(server.openConnectionCount == 2)
        first.close()
        try await server.connectionClosed(number: 1)
        #expect(server.openConnectionCount == 1)
        second.close()
        try await server.connectionsClosed()
        #expect(server.openConnectionCount == 0)
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() throws {
        server.respond { .status(200, body: $0.path + $0.bodyText) }
        let client = try RawClient(server)
        client.send(
            "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
                + "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n")
        for body in ["/1ab", "/2", "/3"] { #expect(try client.readResponse().body == Data(body.utf8)) }
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "Connection: close", true),
        ("GET / HTTP/1.0\r\n\r\n", "Connection: close", true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive", false),
    ])
    func connectionFieldIsHonoured(request: String, field: String, closes: Bool) throws {
        server.respond { _ in .status(200, body: "x") }
        let client = try RawClient(server, sending: request)
        let response = try client.readResponse()
        #expect(response.head.contains("\r\n\(field)\r\n"))
        if closes {
            #expect(client.readToEnd() == ("", .end))
        } else {
            client.send(request)
            #expect(try client.readResponse() == response)
        }
    }

    @Test func bodilessResponsesKeepTheConnectionClean() throws {
        server.enqueue([.status(200, body: "hello"), .status(204, body: "no"), .status(304, body: "no"), .status(200)])
        let client = try RawClient(server, sending: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.readHead() == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        for head in ["204 No Content", "304 Not Modified", "200 OK\r\nContent-Length: 0"] {
            client.get("/")
            #expect(try client.readHead() == "HTTP/1.1 \(head)\r\n\r\n")
        }
    }

    @Test func handlerMayUseAndShutDownItsOwnServer() async throws {
        server.respond { [weak server] request in
            server?.enqueue(.status(200, body: "from a handler"))
            server?.shutDown()
            return .status(200)
        }
        let client = try server.client()
        #expect(client.readToEnd().text == "")
        #expect(server.queuedReplyCount == 1)
    }

    @Test func urlHoldsPortPathAndQuery() throws {
        #expect(server.url("/a?b=c").absoluteString == "http://127.0.0.1:\(server.port)/a?b=c")
        #expect(server.url().path == "/")
    }

    @Test func aPortInUseIsReported() throws {
        #expect(throws: TestServerError.cannotListen(call: "bind", code: EADDRINUSE)) {
            try TestServer(port: UInt16(server.port))
        }
    }

    @Test func disconnectAllClosesIdleConnectionsAndServesNewOnes() async throws {
        server.respond { _ in .status(204) }
        let client = try server.client()
        _ = try client.readResponse()
        server.disconnectAll()
        #expect(client.readToEnd() == ("", .end))
        try await server.connectionsClosed(count: 1)
        let next = try server.client()
        #expect(try next.readResponse().statusLine == "HTTP/1.1 204 No Content")
    }
}

@Suite struct GateTests {
    private let gate = Gate()

    @Test func openWakesEveryWaiterAndStaysOpen() async throws {
        #expect(!gate.isOpen)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await gate.opened() } }
            gate.open()
            try await group.waitForAll()
        }
        gate.open()
        #expect(gate.isOpen)
        try await gate.opened()
    }

    @Test func waitsAreBoundedAndCancellable() async throws {
        let bound = Duration.milliseconds(1)
        await #expect(throws: TestServerError.timedOut(waitingFor: "a gate to be opened", bound: bound)) {
            try await gate.opened(within: bound)
        }
        let task = Task { try await gate.reached(count: 1, within: .seconds(60)) }
        task.cancel()
        await #expect(throws: TestServerError.cancelled) { try await task.value }
    }

    @Test func oneGateHoldsSeveralConnections() async throws {
        let server = try TestServer()
        server.respond { _ in .status(204).stalling(until: gate) }
        let clients = try (0..<5).map { _ in try RawClient(server) }
        for client in clients { client.get("/") }
        try await gate.reached(count: 5)
        #expect(gate.arrivals == 5)
        #expect(clients.allSatisfy { !$0.hasInput })
        gate.open()
        for client in clients { #expect(try client.readResponse().statusLine == "HTTP/1.1 204 No Content") }
        clients[0].get("/")
        #expect(try clients[0].readResponse().statusLine == "HTTP/1.1 204 No Content")
        #expect(gate.arrivals == 6)
    }
}

@Suite struct DescriptorTests {
    /// Simulates a gate that opens when the connection no longer waits and has closed the reading end.
    @Test func signalToAClosedEndDoesNotEndTheProcess() async {
        await #expect(processExitsWith: .success) {
            let pair = try #require(Descriptor.wakePair())
            pair.reading.close()
            pair.writing.signal()
        }
    }
}
