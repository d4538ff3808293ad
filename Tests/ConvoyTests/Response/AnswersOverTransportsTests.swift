import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests the conversion of responses over real transports.
@Suite(.timeLimit(.minutes(5))) struct AnswersOverTransportsTests {
    private struct Problem: Error, Codable, Equatable {
        var title: String
    }

    @Test(arguments: ConformingTransport.all)
    func answersOfEachKind(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
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
        defer { server.shutDown() }
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
