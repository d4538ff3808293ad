// The code of the page "Testing with ConvoyTesting" and of the catalogue of that module.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct TestingPageTests {
    nonisolated struct User: Decodable, Sendable { let name: String }

    @Test func aStub() async throws {
        let stub = StubTransport()
        stub.route(.get, "/users/*", replies: .json(#"{"name": "Ada"}"#))
        let manager = RequestManager(
            configuration: .init(transport: .custom(stub)))
        let url = "http://example.com/users/1"
        let user = try await manager.send(Request<User>.get(url)).value
        #expect(user.name == "Ada")
        #expect(stub.calls.map(\.url.path) == ["/users/1"])
        #expect(stub.calls[0].headerFields["Authorization"] == nil)
        #expect(stub.calls[0].body?.data == nil)
        let slow = StubTransport { (exchange: StubExchange) in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 2))
            exchange.send(Data("o".utf8))
            exchange.finish(RequestError(.connectionLost, "cut"))
        }
        let lost = RequestManager(configuration: .init(transport: .custom(slow)))
        let error = await #expect(throws: RequestError.self) { try await lost.send(Request<Data>.get(url)) }
        #expect(error?.code == .connectionLost)
    }

    @Test func aServer() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(503), .json(#"{"name": "Ada"}"#)])

        var configuration = RequestManager.Configuration(baseURL: server.url())
        configuration.retries = .standard
        configuration.jitter = { 0 }  // not on the page
        let manager = RequestManager(configuration: configuration)
        let user = try await manager.send(Request<User>.get("users/1")).value

        #expect(user.name == "Ada")
        #expect(try await server.takeRequest().path == "/users/1")
        #expect(server.requestCount == 2)
    }

    @Test func faults() async throws {
        let manager = RequestManager()
        let server = try TestServer(recording: RequestRecording.last(10))
        defer { server.shutDown() }
        server.enqueue(.generated(byteCount: 1_000).resetting(afterBytes: 500))
        do {
            _ = try await manager.send(Request<Data>.get(server.url("/a")))
        } catch {
            #expect(error.code == .connectionLost)
        }
        let gate = Gate()
        server.enqueue(.body(Data("complete".utf8)).stalling(until: gate))
        let operation = manager.enqueue(Request<Data>.get(server.url("/b")))
        try await gate.reached()
        operation.cancel()
        gate.open()
        _ = try? await operation.response()
        #expect(operation.error?.code == .cancelled)
        _ = try await server.takeRequest()
        _ = try await server.takeRequest()
        do {
            _ = try await server.takeRequest(within: .milliseconds(1))
        } catch TestServerError.timedOut(let what, _) {
            print("there was no \(what)")
        }
    }

    @Test func time() async throws {
        let clock = VirtualClock()
        let stub = StubTransport(clock: clock)
        stub.route("/report", replies: .status(503), .json("[]"))
        let manager = RequestManager(
            configuration: .init(
                retries: .standard, transport: .custom(stub),
                clock: clock, jitter: { 1 }))
        let url = "http://example.com/report"
        let report = manager.enqueue(Request<[Int]>.get(url))
        try await clock.advanceToNextTimer()
        #expect(try await report.response().value.isEmpty)
        #expect(clock.elapsed == .milliseconds(500))
    }

    @Test func recordings() async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.json("[1]"))
        let url = server.url("/list")
        let recorder = HARRecorder(bodyLimitBytes: 1 << 20)
        let live = RequestManager(configuration: .init(monitors: [recorder]))
        _ = try await live.send(Request<[Int]>.get(url))
        await live.drain()
        let archive = recorder.har()

        let stub = try StubTransport(replaying: archive)
        let again = RequestManager(configuration: .init(transport: .custom(stub)))
        #expect(try await again.send(Request<[Int]>.get(url)).value == [1])
    }
}
