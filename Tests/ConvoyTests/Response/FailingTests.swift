import Foundation
import Testing

@testable import Convoy

/// Tests the typed failure of a response whose status is not acceptable.
@Suite struct FailingTests {
    private struct Problem: Error, Codable, Equatable {
        var title: String
    }

    private struct User: Codable, Equatable, Sendable {
        var name: String
    }

    private static let request = Request<User>.get("http://stub/a").failing(with: Problem.self)
    private static let problem = Data(#"{"title":"no"}"#.utf8)

    private static func answering(_ statusCode: Int, _ body: Data = problem) -> any Transport {
        StubServer { $0.answer(statusCode, body: body) }.transport
    }

    @Test(arguments: [400, 401, 404, 422, 500, 503, 302])
    func failureIsDecodedFromAnotherStatus(statusCode: Int) async throws {
        let sending = Sending(Self.request, over: Self.answering(statusCode))
        let error = try await sending.error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.refusal(as: Problem.self) == Problem(title: "no"))
        #expect(error.message.hasPrefix("the server answered \(statusCode)"))
        #expect(error.response?.statusCode == statusCode)
        #expect(error.attempts.map(\.statusCode) == [statusCode])
        #expect(error.isRetryable == RetryPolicy.standard.statusCodes.contains(statusCode))
        #expect(sending.operation.error?.refusal(as: Problem.self) == Problem(title: "no"))
    }

    @Test func successIsDecodedAsTheOutputOnly() async throws {
        let transport = Self.answering(200, Data(#"{"name":"A"}"#.utf8))
        #expect(try await Sending(Self.request, over: transport).response().value == User(name: "A"))
        let error = try await Sending(Self.request, over: Self.answering(200)).error()
        #expect(error.code == .decodingFailed)
    }

    @Test(arguments: ["<html>", "", "{}"])
    func anUndecodableFailureKeepsTheStatus(body: String) async throws {
        let error = try await Sending(Self.request, over: Self.answering(503, Data(body.utf8))).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.message.hasPrefix("the server answered 503, and its body could not be decoded: "))
        #expect(error.body == Data(body.utf8))
        #expect(error.underlying is DecodingError)
        #expect(error.refusal(as: Problem.self) == nil)
        #expect(error.isRetryable)
        #expect(error.response?.statusCode == 503)
        #expect(error.attempts.count == 1)
    }

    /// Without a typed failure, 64 KiB of the body are kept.
    @Test func bodyOfAFailureIsKeptWholeUpToTheLimit() async throws {
        let title = String(repeating: "a", count: 200_000)
        let body = Data(#"{"title":"\#(title)"}"#.utf8)
        let server = StubServer { $0.answer(500, pieces: body.pieces(of: 10_000)) }
        let limit = Int64(body.count)
        for request in [Self.request, Self.request.maxBodyBytes(limit)] {
            let error = try await Sending(request, over: server.transport).error()
            #expect(error.refusal(as: Problem.self) == Problem(title: title))
        }
        let error = try await Sending(Self.request.maxBodyBytes(limit - 1), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect((error.underlying as? RequestError)?.code == .bodyTooLarge)
        #expect(error.body?.count == Int(limit - 1))
    }

    @Test func cutFailureIsALostConnection() async throws {
        let server = StubServer { $0.answer(500, expectedBytes: 100, pieces: [Self.problem], then: .cut) }
        #expect(try await Sending(Self.request, over: server.transport).error().code == .connectionLost)
    }

    @Test func redirectsComeFirst() async throws {
        let server = StubServer { exchange in
            exchange.request.url.path == "/a"
                ? exchange.answer(302, headerFields: ["Location": "/b"], body: Self.problem)
                : exchange.answer(404, body: Data(#"{"title":"b"}"#.utf8))
        }
        let error = await server.manager().error(of: Self.request)
        #expect(error?.refusal(as: Problem.self) == Problem(title: "b"))
        #expect(error?.attempts.redirects.map(\.path) == ["/b"])
    }

    /// The dependent is not sent, and its error contains the server's response to the first request.
    @Test func dependentsFailWithTheTypedValue() async throws {
        let server = StubServer { $0.answer(404, body: Self.problem) }
        let manager = server.manager()
        let first = manager.operation(Self.request)
        let second = manager.operation(after: first) { _ in Self.request }
        let third = manager.operation(after: second) { _ in Self.request }
        manager.enqueue(first, second, third)
        for operation in [second, third] {
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .dependencyFailed)
            #expect(error?.refusal(as: Problem.self) == Problem(title: "no"))
        }
        #expect(server.paths == ["/a"])
    }

    private struct Told: LocalizedError, Decodable {
        var title: String
        var errorDescription: String? { title }
    }

    @Test func theLocalizedDescriptionIsInTheMessage() async throws {
        let request = Request.stub("a").failing(with: Told.self)
        let error = try await Sending(request, over: Self.answering(422)).error()
        #expect(error.message == "the server answered 422: no")
    }

    @Test func anotherTypeIsNotGiven() async throws {
        let error = try await Sending(Self.request, over: Self.answering(404)).error()
        #expect(error.refusal(as: Told.self) == nil)
        #expect(RequestError(.timedOut, "", underlying: Problem(title: "")).refusal(as: Problem.self) == nil)
    }

    @Test func requestsWithFailuresShareNoTransfer() async throws {
        let server = StubServer.held()
        let manager = server.manager()
        let operations = (0..<2).map { _ in manager.enqueue(Self.request.coalesced()) }
        for exchange in await server.exchanges.wait(count: 2) { exchange.answer(404, body: Self.problem) }
        for operation in operations {
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.refusal(as: Problem.self) == Problem(title: "no"))
        }
    }

    @Test func functionMakesTheFailure() async throws {
        let request = Request<Data>.get("http://stub/").failing { body, head in
            Problem(title: "\(head.statusCode) \(String(decoding: body, as: UTF8.self))")
        }
        let error = try await Sending(request, over: Self.answering(418, Data("tea".utf8))).error()
        #expect(error.refusal(as: Problem.self) == Problem(title: "418 tea"))
    }

    @Test func fileIsOnlyWrittenForAnAcceptableAnswer() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("f")
        let request = Request.stub("a").saved(to: file).failing(with: Problem.self)
        let error = try await Sending(request, over: Self.answering(404)).error()
        #expect(error.refusal(as: Problem.self) == Problem(title: "no"))
        #expect(try directory.entries.isEmpty)
        #expect(try await Sending(request, over: Self.answering(200)).response().value == file)
        #expect(try Data(contentsOf: file) == Self.problem)
    }

    /// The body of a failure is never decoded as a success.
    @Test func newOutputKeepsTheFailure() async throws {
        let requests: [Request<Void>] = [
            Self.request.ignoringBody(), Self.request.decoding { _, _ in },
            Self.request.written { OutputStream.toMemory() }.map { _ in },
        ]
        for request in requests {
            let error = try await Sending(request, over: Self.answering(404)).error()
            #expect(error.refusal(as: Problem.self) == Problem(title: "no"))
        }
    }

    @Test func cancellingWhileTheFailureIsDecodedWins() async throws {
        let (begun, end) = (EventLog<Void>(), DispatchSemaphore(value: 0))
        let request = Request.stub("a").failing { _, _ -> Problem in
            begun.record(())
            end.wait()
            return Problem(title: "late")
        }
        let sending = Sending(request, over: Self.answering(404))
        await begun.wait()
        sending.operation.cancel()
        end.signal()
        #expect(try await sending.error().code == .cancelled)
    }
}
