import ConvoyTesting
import Foundation
import TestSupport
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Records the events of a transport in order.
private final class RecordingClient: TransportClient {
    enum Call: Equatable, Sendable {
        case head(Int)
        case data(Data)
        case sent(Int64)
        case end(RequestError.Code?)
    }

    let calls = EventLog<Call>()
    private let onHead: @Sendable (RecordingClient) -> Void

    init(onHead: @escaping @Sendable (RecordingClient) -> Void = { _ in }) { self.onHead = onHead }

    func didReceive(_ head: ResponseHead) {
        calls.record(.head(head.statusCode))
        onHead(self)
    }
    func didReceive(_ data: Data) -> Bool {
        calls.record(.data(data))
        return true
    }
    func didPause() {}
    func didSend(totalBytes: Int64) { calls.record(.sent(totalBytes)) }
    func didFinish(_ error: RequestError?) { calls.record(.end(error?.code)) }
}

private func makeTask(_ transport: StubTransport, _ client: any TransportClient) throws -> URLSessionTask {
    let request = try PreparedRequest(Request<Data>.get("http://stub/a").core, baseURL: nil)
    return try transport.makeTask(for: request, client: client)
}

@Suite struct StubTransportTests {
    @Test func theExchangeFollowsTheStateOfItsTask() throws {
        let (exchanges, client) = (EventLog<StubExchange>(), RecordingClient())
        let task = try makeTask(StubTransport { exchanges.record($0) }, client)
        #expect(exchanges.count == 0)
        task.resume()
        let exchange = try #require(exchanges.events.first)
        #expect(task.state == .running && !exchange.isCancelled && !exchange.isSuspended)
        task.suspend()
        #expect(task.state == .suspended && exchange.isSuspended)
        task.resume()
        task.resume()
        #expect(task.state == .running && !exchange.isSuspended)
        // The handler is called once.
        #expect(exchanges.events.map(\.request.url.absoluteString) == ["http://stub/a"])
        #expect(task.originalRequest?.url?.absoluteString == "http://stub/a")
        task.cancel()
        #expect(task.state == .canceling && exchange.isCancelled)
        exchange.answer(200)
        #expect(client.calls.events == [.end(.cancelled)])
        #expect(StubTransport { _ in }.pausesInPlace)
        #expect(!StubTransport(pausesInPlace: false) { _ in }.pausesInPlace)
    }

    @Test func answerIsHeadBodyAndEnd() throws {
        let client = RecordingClient()
        let task = try makeTask(StubTransport { $0.answer(201, body: Data("ab".utf8)) }, client)
        task.resume()
        #expect(client.calls.events == [.head(201), .data(Data("ab".utf8)), .end(nil)])
        #expect(task.state == .completed)
        let empty = RecordingClient()
        try makeTask(StubTransport { $0.answer(204) }, empty).resume()
        #expect(empty.calls.events == [.head(204), .end(nil)])
    }

    @Test func nothingIsReportedAfterTheEnd() throws {
        let client = RecordingClient()
        let transport = StubTransport { exchange in
            exchange.sent(totalBytes: 3)
            exchange.finish(RequestError(.timedOut, "late"))
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("x".utf8))
            exchange.finish()
        }
        try makeTask(transport, client).resume()
        #expect(client.calls.events == [.sent(3), .end(.timedOut)])
    }

    /// Calls are serial and in order, even if they are made inside another call or by several threads.
    @Test func callsAreOneAtATime() async throws {
        let exchanges = EventLog<StubExchange>()
        let client = RecordingClient { client in
            exchanges.events[0].send(Data("x".utf8))
            exchanges.events[0].finish()
            // The mark says where the call ends.
            client.calls.record(.sent(0))
        }
        try makeTask(StubTransport { exchanges.record($0) }, client).resume()
        exchanges.events[0].respond(ResponseHead(statusCode: 200))
        #expect(client.calls.events == [.head(200), .sent(0), .data(Data("x".utf8)), .end(nil)])
    }
}

@Suite struct StubRoutesTests {
    private let stub = StubTransport()

    private func send(_ request: Request<Data>) async throws -> Response<Data> {
        try await RequestManager(configuration: .init(transport: .custom(stub))).send(request)
    }

    private func failure(_ request: Request<Data>) async -> RequestError? {
        await #expect(throws: RequestError.self) { try await send(request) }
    }

    private func status(_ url: String, _ method: HTTPMethod = .get) async -> Int? {
        try? await send(Request(method: method, url: url)).statusCode
    }

    @Test(arguments: [
        ("/a", "/a", true), ("/a", "/a/", true), ("a", "/a", true), ("/a", "/b", false), ("/a", "/a/b", false),
        ("/", "/", true), ("/", "/a", false), ("/*", "/a", true), ("/*", "/", false), ("/*", "/a/b", false),
        ("/a/*/c", "/a/b/c", true), ("/a/*/c", "/a/b/d", false), ("/a/**", "/a", true), ("/a/**", "/a/b/c", true),
        ("/a/**", "/b", false), ("/a/**", "/", false), ("**", "/", true), ("**", "/a/b", true), ("/*/**", "/", false),
        ("/a%2Fb", "/a%2Fb", true), ("/a/b", "/a%2Fb", false), ("/a", "/a?q=1", true),
        ("/a?q=1", "/a?q=1", true), ("/a?q=1", "/a?q=2", false), ("/a?q=1", "/a", false), ("/a?", "/a", false),
        ("/*?q=b/c", "/a?q=b/c", true), ("?q=1", "/?q=1", true), ("/a?q=%20", "/a?q=%20", true),
    ])
    func pathsAreComparedByTheirComponents(pattern: String, path: String, matches: Bool) async {
        stub.route(pattern, replies: .status(201))
        #expect(await status("http://stub\(path)") == (matches ? 201 : nil))
    }

    @Test func methodAndHostAreComparedAndTheLastRouteAnswers() async {
        stub.route("/a", replies: .status(200))
        stub.route(.post, "/a", replies: .status(201))
        stub.route(.post, host: "Other", "/a", replies: .status(202))
        #expect(await status("http://stub/a") == 200)
        #expect(await status("http://stub/a", .post) == 201)
        #expect(await status("http://other:8080/a", .post) == 202)
        #expect(await status("http://other/a", .get) == 200)
        // The route that was added last answers.
        stub.route("/**", replies: .status(203))
        #expect(await status("http://other/a", .post) == 203)
        stub.route("/a", replies: .status(204))
        #expect(await status("http://stub/a") == 204)
        #expect(await status("http://stub/b") == 203)
    }

    /// If a delayed reply ran on the clock's thread, this client would block the timer that it waits for.
    @Test func aDelayedReplyBlocksNoOtherTimer() async throws {
        let (rang, isTold) = (DispatchSemaphore(value: 0), EventLog<Bool>())
        stub.route("/a", replies: .status(200).after(.milliseconds(1)))
        let client = RecordingClient { _ in
            _ = SystemClock.shared.wake(at: .now) { rang.signal() }
            isTold.record(rang.wait(timeout: .now() + .seconds(30)) == .success)
        }
        try makeTask(stub, client).resume()
        #expect(await isTold.wait() == [true])
    }

    @Test func repliesThatComeLaterComeInTheOrderOfTheirMoments() async throws {
        let told = EventLog<Int>()
        stub.route("/a", replies: .status(200).after(.milliseconds(1)))
        for index in 0..<300 { try makeTask(stub, RecordingClient { _ in told.record(index) }).resume() }
        #expect(await told.wait(count: 300) == Array(0..<300))
    }

    @Test func repliesComeInTheirOrderAndTheLastAgain() async {
        stub.route(
            "/a", replies: .status(200), .failure(.connectionLost),
            .json("[]", statusCode: 201, headerFields: ["Link": "</b>"]))
        #expect(await status("http://stub/a") == 200)
        #expect(await failure(.get("http://stub/a"))?.code == .connectionLost)
        for _ in 1...2 {
            let response = try? await send(.get("http://stub/a"))
            #expect(response?.statusCode == 201 && response?.value == Data("[]".utf8))
            #expect(["Content-Type", "Link"].map { response?.headerFields[$0] } == ["application/json", "</b>"])
        }
    }

    @Test func aRequestWithoutARouteFailsAndNamesTheRoutes() async {
        let first = await failure(.get("http://stub/a"))
        #expect(first?.code == .transportFailed)
        #expect(first?.message == "no route of the stub matches GET http://stub/a: it has none")
        #expect(first?.isRetryable == false)
        stub.route(.put, "a/*", replies: .status(200))
        stub.route(host: "h", "/b", replies: .status(200))
        let second = await failure(.get("http://stub/a"))
        #expect(second?.message.hasSuffix("GET http://stub/a: PUT /a/*, any method //h/b") == true)
    }

    @Test func everyAttemptIsRecordedAndItsBodyCounted() async {
        stub.route("/**") { .status(200, body: Data($0.url.path.utf8)) }
        stub.route("/a", replies: .redirect(to: "/b"))
        #expect((try? await send(.post("http://stub/a").body(Data("x".utf8))).value) == Data("/b".utf8))
        #expect(stub.calls.map { "\($0)" } == ["POST http://stub/a", "GET http://stub/b"])
        #expect(stub.calls.first?.body == .data(Data("x".utf8)))
        let response = try? await send(.post("http://stub/c").body(Data(count: 5)))
        #expect(response?.transfer.upload.completedBytes == 5)
    }

    @Test func neverWaitsUntilItIsCancelled() async {
        stub.route("/a", replies: .never)
        let manager = RequestManager(configuration: .init(transport: .custom(stub)))
        let operation = manager.enqueue(Request<Data>.get("http://stub/a"))
        await look { !stub.calls.isEmpty }
        #expect(operation.result == nil)
        operation.cancel()
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .cancelled)
    }

    @Test func aTransportWithAFunctionHasNoRoutes() async {
        let stub = StubTransport { $0.answer(204) }
        stub.route("/a", replies: .status(500))
        let manager = RequestManager(configuration: .init(transport: .custom(stub)))
        #expect((try? await manager.send(Request<Data>.get("http://stub/a")).statusCode) == 204)
        #expect(stub.calls.isEmpty)
    }
}
