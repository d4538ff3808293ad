// Tests responses that were recorded from a server and are replayed without it.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct ReplayingTests {
    private struct User: Codable, Sendable, Equatable {
        var id: Int
    }

    private func recording(_ recorder: HARRecorder) -> RequestManager {
        RequestManager(
            configuration: .init(retries: .standard, cookies: CookieJar(), monitors: [recorder], jitter: { 0 }))
    }

    private func replaying(_ archive: Data) throws -> (RequestManager, StubTransport) {
        let stub = try StubTransport(replaying: archive)
        return (RequestManager(configuration: .init(retries: .standard, transport: .custom(stub), jitter: { 0 })), stub)
    }

    /// An archive with these entries, as another program would write it.
    private func archive(_ entries: String...) -> Data {
        Data(
            #"{"log": {"version": "1.2", "creator": {"name": "x"}, "entries": [\#(entries.joined(separator: ","))]}}"#
                .utf8)
    }

    private func entry(_ url: String, _ response: String, method: String = "GET") -> String {
        #"{"request": {"method": "\#(method)", "url": "\#(url)"}, "response": \#(response)}"#
    }

    private func error(of url: String, from manager: RequestManager) async -> RequestError? {
        await #expect(throws: RequestError.self) { try await manager.send(Request<Data>.get(url).retries(.never)) }
    }

    @Test func aRecordingIsReplayedWithoutAServer() async throws {
        let server = try TestServer()
        let recorder = HARRecorder(bodyLimitBytes: 1 << 20)
        let secret = "hunter2"
        for reply: Reply in [
            .status(503), .redirect(to: "/users/1?access_token=\(secret)"),
            .status(
                200, headerFields: [("Content-Type", "application/json"), ("Set-Cookie", "sid=\(secret)")],
                body: #"{"id": 1}"#),
            .status(200, body: "first"), .status(200, body: "second"), .status(404, body: "no"),
        ] { server.enqueue(reply) }
        let base = try #require(server.url("/").absoluteString.dropLast().description as String?)
        let requests: @Sendable (RequestManager) async throws -> [String] = { manager in
            let user = try await manager.send(Request<User>.get("\(base)/me?api_key=\(secret)&page=1").bearer(secret))
            var texts = ["\(user.value.id) \(user.attempts.count) \(user.statusCode)"]
            for _ in 1...2 { texts.append(try await manager.send(Request<String>.get("\(base)/news")).value) }
            let login = Request<String>.post("\(base)/login").form(["user": "ada", "password": secret])
            do throws(RequestError) { _ = try await manager.send(login) } catch {
                texts.append("\(error.code.rawValue) \(String(decoding: error.body ?? Data(), as: UTF8.self))")
            }
            return texts
        }
        let manager = recording(recorder)
        let live = try await requests(manager)
        await manager.drain()
        server.shutDown()
        #expect(live == ["1 3 200", "first", "second", "unacceptableStatus no"])
        let text = String(decoding: recorder.har(), as: UTF8.self)
        #expect(!text.contains(secret))
        #expect(text.contains("password=%3Credacted%3E"))
        let (replayed, stub) = try replaying(recorder.har())
        #expect(try await requests(replayed) == live)
        #expect(stub.calls.count == 6)
        // The stub repeats the last recorded response. A request with another secret in its URL matches too.
        #expect(try await replayed.send(Request<String>.get("\(base)/news")).value == "second")
        let other = Request<User>.get("\(base)/users/1?access_token=other")
        #expect(try await replayed.send(other).value == User(id: 1))
    }

    @Test func failuresComeAgain() async throws {
        let server = try TestServer()
        server.enqueue(.status(200, body: "whole").disconnecting(afterBytes: 3))
        let recorder = HARRecorder()
        let manager = recording(recorder)
        let request = Request<Data>.get(server.url("/cut")).retries(.never)
        let live = await #expect(throws: RequestError.self) { try await manager.send(request) }
        await manager.drain()
        server.shutDown()
        let (replayed, _) = try replaying(recorder.har())
        let again = await #expect(throws: RequestError.self) { try await replayed.send(request) }
        #expect(again?.code == live?.code)
        #expect(again?.code == .connectionLost)
    }

    @Test func archivesOfOtherProgramsAreReplayed() async throws {
        let answer = """
            {"status": 201, "statusText": "", "headers": [{"name": ":status", "value": "201"},
            {"name": "Content-Encoding", "value": "br"}, {"name": "content-length", "value": "9999"}, {"name": "X-A", "value": "1"},
            {"name": "X-Token", "value": "<redacted>"}],
            "content": {"size": 2, "mimeType": "", "encoding": "base64", "text": "AP8="}}
            """
        let nothing = #"{"status": 0, "headers": [], "content": {"size": 0}}"#
        let (manager, _) = try replaying(
            archive(
                entry("https://me:pw@Example.com/a?q=1#part", answer), entry("https://example.com", nothing),
                entry("https://example.com/a?q=1", answer, method: "PUT")))
        let response = try await manager.send(Request<Data>.get("https://Example.com/a?q=1"))
        #expect(response.statusCode == 201)
        #expect(response.value == Data([0, 0xFF]))
        #expect(response.headerFields.map(\.name) == ["X-A"])
        let error = await self.error(of: "https://example.com/", from: manager)
        #expect(error?.code == .connectionLost)
    }

    @Test func aRequestWithoutAnEntryIsNamed() async throws {
        let (manager, stub) = try replaying(
            archive(
                entry("https://example.com/a?token=%3Credacted%3E", #"{"status": 200, "headers": [], "content": {}}"#)))
        let request = Request<Data>.get("https://example.com/a?token=secret&b=1")
        let error = await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(error?.code == .transportFailed)
        #expect(
            error?.message == "no entry of the archive is for GET https://example.com/a?token=%3Credacted%3E&b=1: "
                + "GET https://example.com/a?token=%3Credacted%3E")
        // A route that the test adds precedes the recorded ones.
        stub.route("/a", replies: .status(202))
        #expect(try await manager.send(request).statusCode == 202)
    }

    /// The recording has no body, and a caller would mistake an empty body for the real one.
    @Test func aRecordedSuccessWithoutItsBodyFails() async throws {
        let content = #""headers": [], "content": {"size": 7}}"#
        let (manager, stub) = try replaying(
            archive(
                entry("http://h/a", #"{"status": 200, \#(content)"#),
                entry("http://h/b", #"{"status": 404, \#(content)"#)))
        let error = await self.error(of: "http://h/a", from: manager)
        #expect(error?.code == .transportFailed)
        #expect(error?.message.contains("7 bytes") == true)
        let refusal = await self.error(of: "http://h/b", from: manager)
        #expect(refusal?.response?.statusCode == 404)
        stub.route("/a", replies: .status(200, body: Data("x".utf8)))
        #expect(try await manager.send(Request<Data>.get("http://h/a")).value == Data("x".utf8))
    }

    @Test func anInvalidArchiveIsAnError() throws {
        for text in ["", "{}", #"{"log": {}}"#, #"{"log": {"entries": [{}]}}"#] {
            #expect(throws: DecodingError.self) { try StubTransport(replaying: Data(text.utf8)) }
        }
        #expect(throws: CocoaError.self) { try StubTransport(replaying: URL(fileURLWithPath: "/nowhere/a.har")) }
        _ = try StubTransport(replaying: archive())
    }

    @Test func failuresOfBrowsersAreLostConnections() async throws {
        let (manager, _) = try replaying(
            archive(
                entry("http://h/a", #"{"status": 0, "headers": [], "content": {}, "_error": "net::ERR_FAILED"}"#),
                entry("http://h/b", #"{"status": 200, "headers": [], "content": {"text": "!", "encoding": "base64"}}"#)
            ))
        let error = await self.error(of: "http://h/a", from: manager)
        #expect(error?.code == .connectionLost && error?.message.contains("net::ERR_FAILED") == true)
        // A recorded body that cannot be decoded is not replayed as an empty body.
        let broken = await self.error(of: "http://h/b", from: manager)
        #expect(broken?.code == .transportFailed && broken?.message.contains("base64") == true)
    }
}
