import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests every kind of body over every transport.
@Suite(.timeLimit(.minutes(5))) struct BodySendingTests {
    @Test(arguments: BodySubject.all, [0, 1, 65_535, 65_536, 65_537, 3_000_001])
    func arrivesByteForByte(_ subject: BodySubject, _ byteCount: Int) async throws {
        if byteCount > 1_000_000, subject.kind.isSlow { return }
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let directory = try TemporaryDirectory()
        let body = Data.patterned(byteCount)
        let request = try subject.kind.set(Request<Data>.put(server.url()), body, directory)
        let response = try await Sending(request, over: subject.transport).response()
        #expect(response.transfer.upload.completedBytes == Int64(byteCount))
        #expect(response.transfer.upload.totalBytes == (subject.kind.hasLength ? Int64(byteCount) : nil))
        let seen = try await server.takeRequest()
        #expect(seen.values(of: "Content-Length") == (subject.kind.hasLength ? ["\(byteCount)"] : []))
        #expect(seen.values(of: "Transfer-Encoding") == (subject.kind.hasLength ? [] : ["chunked"]))
        #expect(seen.value(of: "Expect") == nil)
        #expect(seen.values(of: "Content-Type") == ["application/octet-stream"])
        #expect(seen.isBodyComplete)
        #expect(seen.body == body)
        #expect(seen.trailerFields.isEmpty)
        #expect(server.rejectedRequestCount == 0)
    }

    @Test(arguments: ConformingTransport.all)
    func textAndFormArrive(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200) }
        let post = Request<Data>.post(server.url())
        _ = try await Sending(post.body("grüße"), over: subject.transport).response()
        let text = try await server.takeRequest()
        #expect(text.bodyText == "grüße")
        #expect(text.values(of: "Content-Type") == ["text/plain; charset=utf-8"])
        let fields = [URLQueryItem(name: "a b", value: "1&2"), URLQueryItem(name: "ü", value: nil)]
        _ = try await Sending(post.form(fields), over: subject.transport).response()
        let form = try await server.takeRequest()
        #expect(form.bodyText == "a+b=1%262&%C3%BC=")
        #expect(form.values(of: "Content-Type") == ["application/x-www-form-urlencoded"])
    }

    /// The caller's framing fields are sent once.
    ///
    /// If these fields are wrong, the request fails.
    @Test(arguments: ConformingTransport.all)
    func framingIsWrittenOnce(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200) }
        let put = Request<Data>.put(server.url())
        _ = try await Sending(put.body("four").header("content-length", "4"), over: subject.transport).response()
        #expect(try await server.takeRequest().values(of: "Content-Length") == ["4"])
        let chunked = put.body { InputStream(data: Data("four".utf8)) }.header("Transfer-Encoding", "Chunked")
        _ = try await Sending(chunked, over: subject.transport).response()
        let seen = try await server.takeRequest()
        #expect(seen.values(of: "Transfer-Encoding").map { $0.lowercased() } == ["chunked"])
        #expect(seen.bodyText == "four")
        #expect(server.rejectedRequestCount == 0)
    }

    #if canImport(FoundationNetworking)
        @Test func sequenceOverURLSessionIsRefused() async throws {
            let server = try TestServer()
            defer { server.shutDown() }
            let request = Request<Data>.put(server.url()).body(Chunks.of(Data("x".utf8)))
            let error = try await Sending(request, over: URLSessionTransport.shared).error()
            #expect(error.code == .invalidRequest)
            #expect(error.message.contains("another transport"))
            #expect(server.connectionCount == 0)
        }
    #endif

    // MARK: False lengths

    @Test(arguments: ConformingTransport.all, [-1, 1, 100_000, -299_999])
    func aStreamOfAnotherLengthFailsTheRequest(_ subject: ConformingTransport, _ difference: Int) async throws {
        let body = Data(repeating: 1, count: 300_000 + difference)
        try await expectUnreadable("declared", subject) {
            $0.body(byteCount: 300_000) { ScriptedInput(body) }
        }
    }

    @Test(arguments: ConformingTransport.all.filter(\.waitsForBodies), [-1, 1, 100_000, -299_999])
    func aSequenceOfAnotherLengthFailsTheRequest(_ subject: ConformingTransport, _ difference: Int) async throws {
        let body = Data(repeating: 1, count: 300_000 + difference)
        try await expectUnreadable("declared", subject) { $0.body(Chunks.of(body), byteCount: 300_000) }
    }

    // MARK: Failures

    @Test(arguments: ConformingTransport.all, [0, 1, 150_000, 2_000_000])
    func aStreamThatFailsFailsTheRequest(_ subject: ConformingTransport, _ byteCount: Int) async throws {
        for length in [nil, 3_000_000] as [Int64?] {
            let error = try await expectUnreadable("failed", subject) {
                $0.body(byteCount: length) { ScriptedInput(Data(count: byteCount), then: .failure) }
            }
            #expect(error.underlying is ScriptedInput.Failure)
        }
    }

    /// A stream may fail after its last byte, for example in a check of its data.
    @Test(arguments: ConformingTransport.all)
    func aStreamThatFailsAtItsEndFailsTheRequest(_ subject: ConformingTransport) async throws {
        try await expectUnreadable("failed", subject) {
            $0.body(byteCount: 20_000) { ScriptedInput(Data(count: 20_000), then: .failure) }
        }
    }

    @Test(arguments: ConformingTransport.all)
    func streamThatClaimsTooMuchIsAnError(_ subject: ConformingTransport) async throws {
        try await expectUnreadable("failed", subject) { $0.body { ScriptedInput(Data(count: 9), then: .lie) } }
    }

    @Test(arguments: ConformingTransport.all)
    func aMissingStreamIsAnError(_ subject: ConformingTransport) async throws {
        try await expectUnreadable("no stream", subject) { $0.body { nil } }
        try await expectUnreadable("failed", subject) { $0.body { InputStream(fileAtPath: "/nonexistent/file") } }
    }

    /// A caller may return the same stream for a second attempt, when it is already closed.
    ///
    /// Foundation traps if code reads the `streamError` of a stream that has none.
    @Test(arguments: ConformingTransport.all, [nil, 3] as [Int64?])
    func streamThatHasBeenClosedIsAnError(_ subject: ConformingTransport, _ byteCount: Int64?) async throws {
        try await expectUnreadable("failed", subject) {
            $0.body(byteCount: byteCount) {
                let stream = InputStream(data: Data("abc".utf8))
                stream.open()
                stream.close()
                return stream
            }
        }
    }

    @discardableResult
    private func expectUnreadable(
        _ reason: String, _ subject: ConformingTransport, sourceLocation: SourceLocation = #_sourceLocation,
        _ set: (Request<Data>) -> Request<Data>
    ) async throws -> RequestError {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200) }
        let request = set(.put(server.url()))
        let error = try await Sending(request, over: subject.transport).error(sourceLocation: sourceLocation)
        #expect(error.code == .bodyUnreadable, "\(error)", sourceLocation: sourceLocation)
        #expect(error.message.contains(reason), "\(error)", sourceLocation: sourceLocation)
        #expect(!error.isRetryable, sourceLocation: sourceLocation)
        #expect(error.request == "PUT \(server.url())", sourceLocation: sourceLocation)
        try await server.expectNothingWhole(sourceLocation: sourceLocation)
        return error
    }

    /// An empty body needs no bytes, so its source is not read.
    @Test(arguments: ConformingTransport.all)
    func aBodyOfLengthZeroIsNotRead(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200) }
        let calls = EventLog<String>()
        let request = Request<Data>.put(server.url()).body(byteCount: 0) {
            ScriptedInput(Data("x".utf8), calls: calls)
        }
        _ = try await Sending(request, over: subject.transport).response()
        #expect(calls.count == 0)
        #expect(try await server.takeRequest().values(of: "Content-Length") == ["0"])
    }
}
