import Foundation
import Testing

@testable import Convoy

/// Either of two outputs: of an acceptable answer, or of one with another status.
@Suite struct FailingTests {
    private struct Problem: Error, Codable, Equatable {
        var title: String
    }

    private struct User: Codable, Equatable, Sendable {
        var name: String
    }

    private typealias Answer = Result<User, Problem>

    private static let request = Request<User>.get("http://stub/a").failing(with: Problem.self)
    private static let problem = Data(#"{"title":"no"}"#.utf8)

    private static func answering(_ statusCode: Int, _ body: Data = problem) -> any Transport {
        StubServer { $0.answer(statusCode, body: body) }.transport
    }

    @Test func acceptableAnswerIsASuccess() async throws {
        let transport = Self.answering(200, Data(#"{"name":"A"}"#.utf8))
        #expect(try await Sending(Self.request, over: transport).response().value == .success(User(name: "A")))
    }

    @Test(arguments: [400, 401, 404, 422, 500, 503, 302])
    func failureIsDecodedFromAnotherStatus(statusCode: Int) async throws {
        let sending = Sending(Self.request, over: Self.answering(statusCode))
        let response = try await sending.response()
        #expect(response.value == .failure(Problem(title: "no")))
        #expect(response.statusCode == statusCode)
        #expect(response.attempts.map(\.statusCode) == [statusCode])
        #expect(response.timings.executed != nil)
        #expect(response.transfer.receivedBytes == Int64(Self.problem.count))
    }

    @Test func successThatCannotBeDecodedIsNoFailure() async throws {
        let error = try await Sending(Self.request, over: Self.answering(200)).error()
        #expect(error.code == .decodingFailed)
    }

    @Test(arguments: ["<html>", "", "{}"])
    func bodyThatIsNoFailureLeavesTheStatus(body: String) async throws {
        let error = try await Sending(Self.request, over: Self.answering(503, Data(body.utf8))).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.message.hasPrefix("the server answered 503, and its body could not be decoded: "))
        #expect(error.body == Data(body.utf8))
        #expect(error.underlying is DecodingError)
        #expect(error.isRetryable)
        #expect(error.response?.statusCode == 503)
        #expect(error.attempts.count == 1)
    }

    /// Without it, 64 KiB are kept.
    @Test func bodyOfAFailureIsKeptWholeUpToTheLimit() async throws {
        let title = String(repeating: "a", count: 200_000)
        let body = Data(#"{"title":"\#(title)"}"#.utf8)
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 500))
            for start in stride(from: 0, to: body.count, by: 10_000) {
                exchange.send(body[start..<min(start + 10_000, body.count)])
            }
            exchange.finish()
        }
        let response = try await Sending(Self.request, over: server.transport).response()
        #expect(response.value == .failure(Problem(title: title)))
        let limit = Int64(body.count)
        let exact = Self.request.maximumBodyBytes(limit)
        #expect(try await Sending(exact, over: server.transport).response().value == .failure(Problem(title: title)))
        let error = try await Sending(Self.request.maximumBodyBytes(limit - 1), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect((error.underlying as? RequestError)?.code == .bodyTooLarge)
        #expect(error.body?.count == Int(limit - 1))
    }

    @Test func cutFailureIsALostConnection() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 500, expectedBytes: 100))
            exchange.send(Self.problem)
            exchange.finish(RequestError(.connectionLost, "cut"))
        }
        #expect(try await Sending(Self.request, over: server.transport).error().code == .connectionLost)
    }

    @Test func retriesComeFirst() async throws {
        let (clock, count) = (VirtualClock(), Locked(0))
        let server = StubServer { exchange in
            let number = count.withLock { count in
                count += 1
                return count
            }
            exchange.answer(503, body: Data(#"{"title":"\#(number)"}"#.utf8))
        }
        let manager = server.manager(clock: clock) { $0.retries = .standard }
        let operation = manager.enqueue(Self.request)
        for count in 1...3 {
            await clock.armed.wait(count: count)
            clock.advanceToNext()
        }
        let response = try await operation.response()
        #expect(response.value == .failure(Problem(title: "4")))
        #expect(response.attempts.map(\.statusCode) == [503, 503, 503, 503])
    }

    @Test func redirectsComeFirst() async throws {
        let server = StubServer { exchange in
            exchange.request.url.path == "/a"
                ? exchange.answer(302, headerFields: ["Location": "/b"], body: Self.problem)
                : exchange.answer(404, body: Data(#"{"title":"b"}"#.utf8))
        }
        let response = try await server.manager().send(Self.request)
        #expect(response.value == .failure(Problem(title: "b")))
        #expect(response.redirects.map(\.path) == ["/b"])
    }

    @Test func dependentsRun() async throws {
        let manager = StubServer { $0.answer(404, body: Self.problem) }.manager()
        let first = manager.operation(Self.request)
        let second = manager.operation(after: first) { response -> Request<Answer> in
            #expect(response.value == .failure(Problem(title: "no")))
            return Self.request
        }
        manager.enqueue(first, second)
        #expect(try await second.response().value == .failure(Problem(title: "no")))
    }

    @Test func requestsWithFailuresShareNoTransfer() async throws {
        let server = StubServer.held()
        let manager = server.manager()
        let operations = (0..<2).map { _ in manager.enqueue(Self.request.coalesced()) }
        for exchange in await server.exchanges.wait(count: 2) { exchange.answer(404, body: Self.problem) }
        for operation in operations { #expect(try await operation.response().value == .failure(Problem(title: "no"))) }
    }

    @Test func mapSeesBoth() async throws {
        let request = Self.request.map { (try? $0.get().name) ?? "none" }
        #expect(try await Sending(request, over: Self.answering(404)).response().value == "none")
    }

    @Test func functionMakesTheFailure() async throws {
        let request = Request<Data>.get("http://stub/").failing { body, head in
            Problem(title: "\(head.statusCode) \(String(decoding: body, as: UTF8.self))")
        }
        let response = try await Sending(request, over: Self.answering(418, Data("tea".utf8))).response()
        #expect(response.value == .failure(Problem(title: "418 tea")))
    }

    @Test func fileIsOnlyWrittenForAnAcceptableAnswer() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("f")
        let request = Request.stub("a").saved(to: file).failing(with: Problem.self)
        #expect(
            try await Sending(request, over: Self.answering(404)).response().value == .failure(Problem(title: "no")))
        #expect(try directory.entries.isEmpty)
        #expect(try await Sending(request, over: Self.answering(200)).response().value == .success(file))
        #expect(try Data(contentsOf: file) == Self.problem)
    }

    /// What makes a new output forgets the failure: it must never take its body for a success.
    @Test func newOutputBeginsAnew() async throws {
        let requests: [Request<Void>] = [
            Self.request.ignoringBody(), Self.request.decoding { _, _ in },
            Self.request.written { OutputStream.toMemory() }.map { _ in },
        ]
        for request in requests {
            #expect(try await Sending(request, over: Self.answering(404)).error().code == .unacceptableStatus)
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
