import Convoy
import Foundation
import Testing

/// Tests the values that responses can be converted to.
@Suite struct AnswersTests {
    private struct User: Codable, Equatable, Sendable {
        var firstName: String
    }

    private static func answering(_ body: String, _ statusCode: Int = 200) -> StubServer {
        StubServer { $0.answer(statusCode, body: Data(body.utf8)) }
    }

    private static let snakeCase: JSONDecoder = {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }()

    @Test func decoderOfTheCallersIsUsed() async throws {
        let transport = Self.answering(#"{"first_name":"A"}"#).transport
        let request = Request<User>.get("http://stub/").decoding(with: Self.snakeCase)
        #expect(try await Sending(request, over: transport).response().value == User(firstName: "A"))
        let error = try await Sending(Request<User>.get("http://stub/"), over: transport).error()
        #expect(error.code == .decodingFailed)
        #expect(error.message.hasSuffix(#"the key "firstName" is missing"#))
    }

    @Test func textThroughAJSONDecoderIsAStringOfJSON() async throws {
        let request = Request<String>.get("http://stub/").decoding(with: JSONDecoder())
        #expect(try await Sending(request, over: Self.answering(#""a\n""#).transport).response().value == "a\n")
    }

    /// Decoding may take long, so no thread of a transport runs it.
    @Test func decodingRunsOnAnExecutor() async throws {
        let (begun, answered, end) = (EventLog<Void>(), EventLog<Void>(), DispatchSemaphore(value: 0))
        let server = StubServer { exchange in
            exchange.answer(200, body: Data("ok".utf8))
            answered.record(())
        }
        let request = Request<Data>.get("http://stub/").decoding { _, _ in
            begun.record(())
            end.wait()
        }
        let sending = Sending(request, over: server.transport)
        await begun.wait()
        await answered.wait()
        #expect(sending.operation.result == nil)
        end.signal()
        _ = try await sending.response()
    }

    @Test(arguments: [200, 204, 205])
    func nothingIsAValue(statusCode: Int) async throws {
        let transport = Self.answering("", statusCode).transport
        #expect(try await Sending(Request<User?>.get("http://stub/"), over: transport).response().value == nil)
        let response = try await Sending(Request<Void>.delete("http://stub/"), over: transport).response()
        #expect(response.statusCode == statusCode)
        let error = try await Sending(Request<User>.get("http://stub/"), over: transport).error()
        #expect(error.code == .decodingFailed)
        #expect(error.message.contains("the body is empty; an optional output allows that"))
    }

    @Test func requestsWithoutAnOutputDropTheBody() async throws {
        let server = StubServer { $0.answer(200, expectedBytes: 1 << 40, pieces: [Data(count: 100)]) }
        let requests: [(Request<Void>, HTTPMethod, Data?)] = [
            (.get("http://stub/"), .get, nil), (.delete("http://stub/"), .delete, nil),
            (.post("http://stub/"), .post, nil), (.put("http://stub/"), .put, nil),
            (.post("http://stub/", json: [1]), .post, Data("[1]".utf8)),
            (.put("http://stub/", json: [1]), .put, Data("[1]".utf8)),
            (.patch("http://stub/", json: [1]), .patch, Data("[1]".utf8)),
        ]
        for (request, method, body) in requests {
            let response = try await Sending(request, over: server.transport).response()
            #expect(response.request.method == method)
            #expect(response.request.body?.data == body)
            #expect(response.transfer.download.completedBytes == 100)
        }
    }
}

/// Tests the conversion of responses over real transports.
@Suite(.timeLimit(.minutes(5))) struct AnswersOverTransportsTests {
    private struct Problem: Error, Codable, Equatable {
        var title: String
    }

    @Test(arguments: ConformingTransport.all)
    func answersOfEachKind(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        server.route("/json") { _ in .json("\u{FEFF}[1]") }
        server.route("/wide") { _ in
            .status(200, headerFields: [("Content-Type", "application/json")], body: Data([0xFF, 0xFE, 0x37, 0]))
        }
        server.route("/none") { _ in .status(204) }
        server.route("/text") { _ in
            .status(200, headerFields: [("Content-Type", "text/plain; charset=latin1")], body: Data([0xFC]))
        }
        func value<Output>(_ request: Request<Output>) async throws -> Output {
            try await Sending(request, over: subject.transport).response().value
        }
        #expect(try await value(Request<[Int]>.get(server.url("/json"))) == [1])
        #expect(try await value(Request<Int>.get(server.url("/wide"))) == 7)
        #expect(try await value(Request<String>.get(server.url("/text"))) == "ü")
        #expect(try await value(Request<[Int]?>.get(server.url("/none"))) == nil)
        #expect(try await value(Request<[Int]?>(method: .head, url: server.url("/json"))) == nil)
        try await value(Request<Void>.delete(server.url("/json")))
        let strict = Request<[Int]>.get(server.url("/text")).acceptableContentTypes("application/json")
        #expect(try await Sending(strict, over: subject.transport).error().code == .unacceptableContentType)
        #expect(
            try await value(Request<Data>.get(server.url("/json")).acceptableContentTypes("application/*")).count == 6)
    }

    @Test(arguments: ConformingTransport.all)
    func failuresAreDecodedWholeAndAfterRetries(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        let title = String(repeating: "a", count: 300_000)
        server.enqueue([.status(503, body: "busy"), .status(422, body: #"{"title":"\#(title)"}"#)])
        var policy = RetryPolicy.standard
        policy.baseDelay = .milliseconds(1)
        let request = Request<[Int]>.get(server.url()).failing(with: Problem.self).retries(policy)
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.refusal(as: Problem.self) == Problem(title: title))
        #expect(error.attempts.map(\.statusCode) == [503, 422])
    }
}
