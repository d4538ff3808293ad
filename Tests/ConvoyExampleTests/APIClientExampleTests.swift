// An example client of an API and its tests: a login, an expired token, an error with a reason, pages and an upload.
import Convoy
import ConvoyTesting
import Foundation
import Testing

nonisolated private struct Tokens: Decodable, Sendable { let access, refresh: String }
nonisolated private struct Page: Decodable, Sendable { let notes: [String], next: String? }
nonisolated private struct Refusal: Error, Decodable, Equatable { let field, reason: String }

private struct APIClient {
    private let manager: RequestManager

    init(base: URL, transport: any Transport, credentials: [String: String]) async throws(RequestError) {
        var configuration = RequestManager.Configuration(baseURL: base, transport: .custom(transport))
        let logins = RequestManager(configuration: configuration)  // no authenticator: it would wait for itself
        let tokens = try await logins.send(Request<Tokens>.post("login", json: credentials)).value
        let bearer = try BearerAuthenticator(token: tokens.access, origins: [base]) { _ in
            try await logins.send(Request<Tokens>.post("refresh", json: ["refresh": tokens.refresh])).value.access
        }
        configuration.interceptors = [bearer]
        manager = RequestManager(configuration: configuration)
    }

    func notes() async throws(RequestError) -> [String] {
        let first = Request<Page>.get("notes")
        let pages = manager.pages(first) { page in page.value.next.map { first.query("cursor", $0) } }
        var notes: [String] = []
        for try await page in pages { notes += page.value.notes }
        return notes
    }

    func add(_ note: String) async throws(RequestError) {
        try await manager.send(Request<Void>.post("notes", json: ["text": note]).failing(with: Refusal.self))
    }

    func upload(_ photo: Data, progress: @escaping @Sendable (ByteProgress) -> Void) async throws(RequestError) {
        let operation = manager.operation(Request<Void>.put("photo").body(photo, contentType: "image/jpeg"))
        manager.enqueue(operation.onProgress { progress($0.upload) })
        try await operation.response()
    }
}

@Suite struct APIClientExampleTests {
    private let stub = StubTransport()
    private let client: APIClient

    init() async throws {
        stub.route(.post, "/v1/login", replies: .json(#"{"access": "old", "refresh": "r"}"#))
        stub.route(.post, "/v1/refresh", replies: .json(#"{"access": "new", "refresh": "r"}"#))
        let base = try #require(URL(string: "https://api.example.com/v1"))
        client = try await APIClient(base: base, transport: stub, credentials: ["name": "ann", "password": "secret"])
    }

    @Test func aTokenThatHasRunOutIsRefreshedAndEveryPageIsCollected() async throws {
        stub.route(.get, "/v1/notes") { request in
            guard request.headerFields["Authorization"] == "Bearer new" else { return .status(401) }
            return .json(request.url.query() == "cursor=2" ? #"{"notes": ["b"]}"# : #"{"notes": ["a"], "next": "2"}"#)
        }
        #expect(try await client.notes() == ["a", "b"])
        #expect(stub.calls.map(\.url.lastPathComponent) == ["login", "notes", "refresh", "notes", "notes"])
        #expect(stub.calls[1].headerFields["Authorization"] == "Bearer old")
    }

    @Test func aFailedResponseIsDecoded() async throws {
        stub.route(.post, "/v1/notes", replies: .json(#"{"field": "text", "reason": "empty"}"#, statusCode: 422))
        let error = await #expect(throws: RequestError.self) { try await client.add("") }
        #expect(error?.refusal(as: Refusal.self) == Refusal(field: "text", reason: "empty"))
    }

    @Test func anUploadReportsItsProgress() async throws {
        stub.route(.put, "/v1/photo", replies: .status(204))
        let (progress, told) = AsyncStream.makeStream(of: ByteProgress.self)
        try await client.upload(Data(count: 100_000)) { told.yield($0) }
        told.finish()
        var last: Double?
        for await bytes in progress { last = bytes.fractionCompleted }
        #expect(last == 1)
    }
}
