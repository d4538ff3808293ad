// The tests of a program with retries. They run in virtual time and take no real time.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct VirtualTimeExampleTests {
    private let clock = VirtualClock()
    private let stub: StubTransport
    private let manager: RequestManager

    init() {
        stub = StubTransport(clock: clock)
        manager = RequestManager(
            configuration: .init(retries: .standard, transport: .custom(stub), clock: clock))
    }

    @Test func threeRetriesTakeNoRealTime() async throws {
        stub.route(
            .get, "/report", replies: .status(503), .failure(.connectionLost),
            .status(429, headerFields: ["Retry-After": "120"]), .json("[]"))
        let operation = manager.enqueue(Request<[Int]>.get("http://example.com/report"))
        for _ in 1...3 { try await clock.advanceToNextTimer() }
        #expect(try await operation.response().value.isEmpty)
        #expect(stub.calls.count == 4)
        #expect(clock.elapsed >= .seconds(120))
    }

    @Test func aDeadlineEndsASlowRequest() async throws {
        stub.route("/slow", replies: .status(200).after(.seconds(60)))
        let operation = manager.enqueue(Request<Data>.get("http://example.com/slow").deadline(.seconds(30)))
        try await clock.timersSet(count: 2)
        clock.advance(by: .seconds(29))
        #expect(operation.result == nil)
        clock.advance(by: .seconds(1))
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .deadlineExceeded)
    }

    @Test func aDownloadIsNamedByItsURL() async throws {
        stub.route("/file", replies: .status(200, body: Data("whole".utf8)))
        let file = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        #expect(try await manager.download("http://example.com/file", to: file).response().value == file)
        #expect(try Data(contentsOf: file) == Data("whole".utf8))
    }

    @Test func aRequestWithoutARouteIsNamed() async throws {
        stub.route(.post, host: "example.com", "/a/**", replies: .status(200))
        let request = Request<Data>.get("http://example.com/a/b")
        let error = await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(error?.code == .transportFailed)
        #expect(
            error?.message
                == "no route of the stub matches GET http://example.com/a/b: POST //example.com/a/**")
        #expect(stub.calls.map(\.url.path) == ["/a/b"])
    }
}
