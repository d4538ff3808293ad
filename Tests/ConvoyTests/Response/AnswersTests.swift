import Foundation
import Testing

@testable import Convoy

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

    // MARK: Decoders

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

    // MARK: Responses without a body or an output

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
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 1 << 40))
            exchange.send(Data(count: 100))
            exchange.finish()
        }
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
