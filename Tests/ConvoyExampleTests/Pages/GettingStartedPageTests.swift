// The code of the pages "Getting started" and "Requests and answers", against a stub.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct GettingStartedPageTests {
    nonisolated struct User: Codable, Sendable {
        var id: Int
        var name: String
    }

    private let stub = StubTransport()

    init() {
        stub.route("/v1/users", replies: .json(#"[{"id": 1, "name": "Ada"}]"#))
        stub.route("/v1/users/*", replies: .json(#"{"id": 1, "name": "Ada"}"#))
        stub.route(.head, "/v1/users/*", replies: .status(404))
    }

    @Test func aManagerAndARequest() async throws {
        var configuration = RequestManager.Configuration(
            baseURL: URL(string: "https://api.example.com/v1"),
            headerFields: ["Accept-Language": "en"])
        configuration.maxConcurrentPerHost = 4
        configuration.transport = .custom(stub)  // not on the page
        let manager = RequestManager(configuration: configuration)

        let response = try await manager.send(Request<User>.get("users/1"))
        print(response.value.name)
        #expect(response.value.name == "Ada")
        #expect(stub.calls[0].url.absoluteString == "https://api.example.com/v1/users/1")
    }

    @Test func modifiers() async throws {
        let manager = RequestManager(
            configuration: .init(baseURL: URL(string: "https://api.example.com/v1"), transport: .custom(stub)))
        let ada = User(id: 1, name: "Ada")
        let search = Request<[User]>.get("users")
            .query(["name": "Ada", "tags": ["a", "b"]])
            .header("Accept-Language", "en")
            .deadline(.seconds(20))
            .priority(.high)
            .tagged("search")
        let users = try await manager.send(search).value
        manager.cancelAll(tagged: "search")
        #expect(users.map(\.id) == [1])
        try await manager.send(Request<Void>.put("users/1", json: ada))
        let purge = HTTPMethod("PURGE")
        try await manager.send(Request<Void>(method: purge, url: "users/1"))
        let found = Request<Void>(method: .head, url: "users/2")
            .acceptableStatusCodes(StatusCheck.codes([200, 404]))
        print(try await manager.send(found).statusCode == 200)
        #expect(stub.calls.dropFirst().map(\.method) == [.put, purge, .head])
    }

    @Test func addresses() {
        struct UserID: RequestURL {
            var number: Int
            var requestURL: URL? { URL(string: "users/\(number)") }
        }

        let request = Request<User>.get(UserID(number: 1))
        #expect(request.url?.relativeString == "users/1")
    }

    @Test func operations() async throws {
        let manager = RequestManager(
            configuration: .init(baseURL: URL(string: "https://api.example.com/v1"), transport: .custom(stub)))
        let names = EventNames()
        let show: (String) -> Void = { names.all.append($0) }
        let operation = manager.operation(Request<User>.get("users/1"))
        operation.onFinish(on: .main) { result in
            switch result {
            case .success(let response): show(response.value.name)
            case .failure(let error): show(error.message)
            }
        }
        manager.enqueue(operation)
        _ = try await operation.response()
        await manager.drain()
        let running: [AnyRequestOperation] = manager.operations
        for operation in running { print(manager.why(operation)) }
        #expect(running.isEmpty)
    }

    @Test func answers() async throws {
        let manager = RequestManager(
            configuration: .init(baseURL: URL(string: "https://api.example.com/v1"), transport: .custom(stub)))
        let request = Request<User>.get("users/1")
        let response: Response<User> = try await manager.send(request)
        let head: ResponseHead = response.head
        print(head.statusCode, head.headerFields["Content-Type"] ?? "")
        let timings: Timings = response.timings
        print(timings.waited ?? .zero, timings.executed ?? .zero)
        print(response.transfer.download.completedBytes)
        if let metrics: TransferMetrics = response.metrics {
            print(metrics.remoteAddress, metrics.firstByte)
        }
        for attempt: AttemptRecord in response.attempts { print(attempt) }
        #expect(response.attempts.count == 1)
    }

    /// This code is only compiled, because the first lines of the catalogue use the network.
    private func theFirstLines() async throws -> User {
        let manager = RequestManager()
        let request = Request<User>.get("https://api.example.com/v1/users/1")
        let user = try await manager.send(request).value
        return user
    }
}

/// Collects the values that callbacks on the main actor have shown.
private final class EventNames {
    var all: [String] = []
}
