import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests bodies that are sent a second time, or cannot be.
@Suite(.timeLimit(.minutes(5))) struct BodyRepeatingTests {
    private static let body = Data.patterned(130_001)
    private static let atOnce = RetryPolicy(maxRetries: 2, baseDelay: .nanoseconds(1))

    private func put(_ subject: BodySubject, _ url: URL, _ directory: TemporaryDirectory) throws -> Request<Data> {
        try subject.kind.set(.put(url), Self.body, directory).retries(Self.atOnce)
    }

    // MARK: Bodies that can be repeated

    @Test(arguments: BodySubject.repeatable)
    func isSentWholeAgainForARetry(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(503), .status(503), .status(200)])
        let directory = try TemporaryDirectory()
        let response = try await Sending(put(subject, server.url(), directory), over: subject.transport).response()
        #expect(response.attempts.count == 3)
        try await expectWhole(server, count: 3)
    }

    @Test(arguments: BodySubject.repeatable, [307, 308])
    func isSentWholeAgainForARedirect(_ subject: BodySubject, _ statusCode: Int) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(statusCode, headerFields: [("Location", "/there")]), .status(200)])
        let directory = try TemporaryDirectory()
        _ = try await Sending(put(subject, server.url(), directory), over: subject.transport).response()
        try await expectWhole(server, count: 2)
    }

    private func expectWhole(_ server: TestServer, count: Int) async throws {
        for _ in 0..<count {
            let seen = try await server.takeRequest()
            #expect(seen.method == "PUT")
            #expect(seen.isBodyComplete)
            #expect(seen.body == Self.body)
        }
        #expect(server.requestCount == count)
    }

    // MARK: Bodies that can be sent only once

    @Test(arguments: BodySubject.once)
    func bodyThatComesOnceIsNotRetried(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.respond { _ in .status(503, body: "later") }
        let error = try await Sending(
            put(subject, server.url(), directory), over: subject.transport
        ).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.response?.statusCode == 503)
        #expect(error.body == Data("later".utf8))
        #expect(server.requestCount == 1)
    }

    @Test(arguments: BodySubject.once)
    func bodyThatComesOnceDoesNotFollowARedirect(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.respond { _ in .status(307, headerFields: [("Location", "/there")]) }
        let error = try await Sending(
            put(subject, server.url(), directory), over: subject.transport
        ).error()
        #expect(error.code == .bodyNotReplayable)
        #expect(error.response?.statusCode == 307)
        #expect(error.message.contains("/there"))
        #expect(!error.isRetryable)
        #expect(error.description.isOneLine)
        #expect(server.requestCount == 1)
    }

    @Test(arguments: BodySubject.once)
    func redirectThatWantsNoBodyIsFollowed(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.enqueue([.status(303, headerFields: [("Location", "/there")]), .status(200)])
        let response = try await Sending(
            put(subject, server.url(), directory), over: subject.transport
        ).response()
        #expect(response.request.method == .get)
        _ = try await server.takeRequest()
        let second = try await server.takeRequest()
        #expect(second.bodyByteCount == 0)
        #expect(second.value(of: "Content-Type") == nil && second.value(of: "Transfer-Encoding") == nil)
    }

    /// The hook's request has another body, or none.
    @Test(arguments: BodySubject.once)
    func redirectHookMayGiveAnotherBody(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.enqueue([.status(307, headerFields: [("Location", "/there")]), .status(200)])
        let policy = RedirectPolicy { redirect in
            var next = redirect.to
            next.body = .data(Data("again".utf8))
            return .rewrite(next)
        }
        let request = try put(subject, server.url(), directory).redirects(policy)
        _ = try await Sending(request, over: subject.transport).response()
        _ = try await server.takeRequest()
        #expect(try await server.takeRequest().bodyText == "again")
    }

    @Test(arguments: BodySubject.once)
    func requestSentTwiceIsRefusedTheSecondTime(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.respond { _ in .status(200) }
        let request = try put(subject, server.url(), directory)
        _ = try await Sending(request, over: subject.transport).response()
        let connections = server.connectionCount
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.code == .bodyNotReplayable)
        #expect(error.message.contains("only once"))
        #expect(error.request == "PUT \(server.url())")
        #expect(server.requestCount == 1 && server.connectionCount == connections)
    }

    /// Two operations send the request at the same moment, and one of them gets the body.
    @Test(arguments: BodySubject.once)
    func requestSentTwiceAtOnceIsSentWholeOnce(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.respond { _ in .status(200) }
        let request = try put(subject, server.url(), directory)
        let sendings = (0..<2).map { _ in Sending(request, over: subject.transport) }
        var codes: [RequestError.Code?] = []
        for sending in sendings { codes.append(try await sending.result().code) }
        #expect(codes.count { $0 == nil } == 1)
        #expect(codes.contains(.bodyNotReplayable), "\(codes)")
        #expect(server.recordedRequests.filter(\.isBodyComplete).map(\.body) == [Self.body])
    }

    @Test(arguments: BodySubject.once)
    func interceptorGetsNoSecondAttempt(_ subject: BodySubject) async throws {
        struct Again: RequestInterceptor {
            func decide(after _: AttemptEnd, of _: AttemptContext) async -> InterceptorDecision { .retry(after: .zero) }
        }
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        server.respond { _ in .status(401) }
        let request = try put(subject, server.url(), directory).intercepted(by: Again())
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.response?.statusCode == 401)
        #expect(server.requestCount == 1)
    }

    // MARK: Suspended uploads

    /// URLSession on Linux starts the request again.
    @Test(arguments: BodySubject.all)
    func aSuspendedUploadIsCompleteOrFails(_ subject: BodySubject) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let directory = try TemporaryDirectory()
        let gate = Gate()
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
        server.respond { _ in .status(200) }
        let request = try subject.kind.set(.put(server.url()), Self.body, directory)
        let sending = Sending(request, over: subject.transport)
        try await gate.reached()
        sending.operation.suspend()
        sending.operation.resume()
        gate.open()
        let code = try await sending.result().code
        if subject.kind.canRepeat || subject.transport.pausesInPlace {
            #expect(code == nil)
            // Bytes of the first request that the system has buffered may still arrive.
            let whole = server.recordedRequests.filter(\.isBodyComplete)
            #expect(!whole.isEmpty && whole.allSatisfy { $0.body == Self.body })
        } else {
            #expect(code == .bodyNotReplayable)
            try await server.requestsReceived(count: 1)
            #expect(server.requestCount == 1)
        }
    }
}

#if canImport(CLibcurl)
    extension BodyRepeatingTests {
        /// The reused connection fails while the body is sent.
        ///
        /// libcurl may send a PUT again by itself.
        @Test(arguments: BodyKind.all, [HTTPMethod.put, .post])
        func aDeadConnectionIsReportedOrReplaced(_ kind: BodyKind, _ method: HTTPMethod) async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let directory = try TemporaryDirectory()
            server.enqueue([
                .status(200), Reply.status(200).performing(.reset, at: .requestBody(afterBytes: 100_000)), .status(200),
            ])
            let transport = try CurlTransport.alone()
            _ = try await Sending(server.get("/first"), transport).response()
            let body = Data.patterned(1_500_000)
            let request = try kind.set(
                Request<Data>(method: method, url: server.url("/upload")), body, directory)
            let code = try await Sending(request, transport).result().code
            // libcurl may notice the end of the connection while it sends or while it receives.
            switch (method, kind.canRepeat) {
            case (.put, true): #expect(code == nil || code == .connectionLost)
            case (.put, false): #expect(code == .bodyNotReplayable || code == .connectionLost)
            // The server may have processed the request, so the lost connection is reported.
            default: #expect(code == .connectionLost)
            }
            let whole = server.recordedRequests.filter { $0.path == "/upload" && $0.isBodyComplete }
            #expect(whole.map(\.body) == (code == nil ? [body] : []))
        }
    }
#endif
