import Convoy
import Foundation
import Testing

/// Tests every kind of body over every transport.
@Suite(.timeLimit(.minutes(5))) struct BodySendingTests {
    private let server: TestServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        server.respond { _ in .status(200) }
    }

    @Test(arguments: BodySubject.all, [0, 1, 65_535, 65_536, 65_537, 3_000_001])
    func arrivesByteForByte(_ subject: BodySubject, _ byteCount: Int) async throws {
        if byteCount > 1_000_000, subject.kind.isSlow { return }
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

    // The caller's framing fields are sent once. If these fields are wrong, the request fails.
    @Test(arguments: ConformingTransport.all)
    func framingIsWrittenOnce(_ subject: ConformingTransport) async throws {
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
            let request = Request<Data>.put(server.url()).body(Chunks.of(Data("x".utf8)))
            let error = try await Sending(request, over: URLSessionTransport.shared).error()
            #expect(error.code == .invalidRequest)
            #expect(error.message.contains("another transport"))
            #expect(server.connectionCount == 0)
        }
    #endif

    @Test(arguments: ConformingTransport.all, [-1, 1, 100_000, -299_999])
    func aBodyOfAnotherLengthFailsTheRequest(_ subject: ConformingTransport, _ difference: Int) async throws {
        let body = Data(repeating: 1, count: 300_000 + difference)
        try await expectUnreadable("declared", subject) { $0.body(byteCount: 300_000) { ScriptedInput(body) } }
        guard subject.waitsForBodies else { return }
        try await expectUnreadable("declared", subject) { $0.body(Chunks.of(body), byteCount: 300_000) }
    }

    /// A stream may fail after its last byte, for example in a check of its data.
    @Test(arguments: ConformingTransport.all, [0, 1, 150_000, 2_000_000, 3_000_000])
    func aStreamThatFailsFailsTheRequest(_ subject: ConformingTransport, _ byteCount: Int) async throws {
        for length in [nil, 3_000_000] as [Int64?] {
            let error = try await expectUnreadable("failed", subject) {
                $0.body(byteCount: length) { ScriptedInput(Data(count: byteCount), then: .failure) }
            }
            #expect(error.underlying is ScriptedInput.Failure)
        }
    }

    // A caller may return the same stream for a second attempt, when it is already closed. Foundation traps if code
    // reads the `streamError` of a stream that has none.
    @Test(arguments: ConformingTransport.all)
    func aStreamThatCannotBeReadIsAnError(_ subject: ConformingTransport) async throws {
        try await expectUnreadable("failed", subject) { $0.body { ScriptedInput(Data(count: 9), then: .lie) } }
        try await expectUnreadable("no stream", subject) { $0.body { nil } }
        try await expectUnreadable("failed", subject) { $0.body { InputStream(fileAtPath: "/nonexistent/file") } }
        for byteCount in [nil, 3] as [Int64?] {
            try await expectUnreadable("failed", subject) {
                $0.body(byteCount: byteCount) {
                    let stream = InputStream(data: Data("abc".utf8))
                    stream.open()
                    stream.close()
                    return stream
                }
            }
        }
    }

    @discardableResult
    private func expectUnreadable(
        _ reason: String, _ subject: ConformingTransport, sourceLocation: SourceLocation = #_sourceLocation,
        _ set: (Request<Data>) -> Request<Data>
    ) async throws -> RequestError {
        let request = set(.put(server.url()))
        let error = try await Sending(request, over: subject.transport).error(sourceLocation: sourceLocation)
        error.expect(.bodyUnreadable, sourceLocation: sourceLocation)
        #expect(error.message.contains(reason), "\(error)", sourceLocation: sourceLocation)
        #expect(error.request == "PUT \(server.url())", sourceLocation: sourceLocation)
        try await server.expectNothingWhole(sourceLocation: sourceLocation)
        return error
    }

    /// An empty body needs no bytes, so its source is not read.
    @Test(arguments: ConformingTransport.all)
    func aBodyOfLengthZeroIsNotRead(_ subject: ConformingTransport) async throws {
        let calls = EventLog<String>()
        let request = Request<Data>.put(server.url()).body(byteCount: 0) {
            ScriptedInput(Data("x".utf8), calls: calls)
        }
        _ = try await Sending(request, over: subject.transport).response()
        #expect(calls.count == 0)
        #expect(try await server.takeRequest().values(of: "Content-Length") == ["0"])
    }
}

/// Tests bodies that are sent a second time, or cannot be.
@Suite(.timeLimit(.minutes(5))) struct BodyRepeatingTests {
    private let server: TestServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
    }

    private static let body = Data.patterned(130_001)
    private static let atOnce = RetryPolicy(maxRetries: 2, baseDelay: .nanoseconds(1))

    private func put(_ subject: BodySubject) throws -> Request<Data> {
        try subject.kind.set(.put(server.url()), Self.body, directory).retries(Self.atOnce)
    }

    /// A retry and two redirects.
    @Test(arguments: BodySubject.repeatable, [503, 307, 308])
    func isSentWholeAgain(_ subject: BodySubject, _ statusCode: Int) async throws {
        let again = Reply.status(statusCode, headerFields: [("Location", "/there")])
        server.enqueue([again, again, .status(200)])
        _ = try await Sending(put(subject), over: subject.transport).response()
        for _ in 0..<3 {
            let seen = try await server.takeRequest()
            #expect(seen.method == "PUT")
            #expect(seen.isBodyComplete)
            #expect(seen.body == Self.body)
        }
        #expect(server.requestCount == 3)
    }

    @Test(arguments: BodySubject.once, [503, 307])
    func bodyThatComesOnceIsNeitherRetriedNorRedirected(_ subject: BodySubject, _ statusCode: Int) async throws {
        server.respond { _ in .status(statusCode, headerFields: [("Location", "/there")], body: "later") }
        let error = try await Sending(put(subject), over: subject.transport).error()
        #expect(error.response?.statusCode == statusCode)
        if statusCode == 503 {
            #expect(error.code == .unacceptableStatus)
            #expect(error.body == Data("later".utf8))
        } else {
            error.expect(.bodyNotReplayable)
            #expect(error.message.contains("/there"))
        }
        #expect(server.requestCount == 1)
    }

    @Test(arguments: BodySubject.once)
    func redirectThatWantsNoBodyIsFollowed(_ subject: BodySubject) async throws {
        server.enqueue([.status(303, headerFields: [("Location", "/there")]), .status(200)])
        let response = try await Sending(put(subject), over: subject.transport).response()
        #expect(response.request.method == .get)
        _ = try await server.takeRequest()
        let second = try await server.takeRequest()
        #expect(second.bodyByteCount == 0)
        #expect(second.value(of: "Content-Type") == nil && second.value(of: "Transfer-Encoding") == nil)
    }

    /// The hook's request has another body, or none.
    @Test(arguments: BodySubject.once)
    func redirectHookMayGiveAnotherBody(_ subject: BodySubject) async throws {
        server.enqueue([.status(307, headerFields: [("Location", "/there")]), .status(200)])
        let policy = RedirectPolicy { redirect in
            var next = redirect.to
            next.body = .data(Data("again".utf8))
            return .rewrite(next)
        }
        let request = try put(subject).redirects(policy)
        _ = try await Sending(request, over: subject.transport).response()
        _ = try await server.takeRequest()
        #expect(try await server.takeRequest().bodyText == "again")
    }

    /// Two operations send the request at the same moment, and one of them gets the body.
    @Test(arguments: BodySubject.once)
    func requestSentTwiceIsSentWholeOnce(_ subject: BodySubject) async throws {
        server.respond { _ in .status(200) }
        let request = try put(subject)
        let sendings = (0..<2).map { _ in Sending(request, over: subject.transport) }
        var errors: [RequestError] = []
        for sending in sendings {
            if let error = try await sending.result().failure as? RequestError { errors.append(error) }
        }
        let connections = server.connectionCount
        // A third operation, which begins after the end of the others, opens no connection.
        errors.append(try await Sending(request, over: subject.transport).error())
        #expect(errors.map(\.code) == [.bodyNotReplayable, .bodyNotReplayable])
        for error in errors {
            #expect(error.message.contains("only once"))
            #expect(error.request == "PUT \(server.url())")
        }
        #expect(server.connectionCount == connections)
        #expect(server.recordedRequests.filter(\.isBodyComplete).map(\.body) == [Self.body])
    }

    @Test(arguments: BodySubject.once)
    func interceptorGetsNoSecondAttempt(_ subject: BodySubject) async throws {
        struct Again: RequestInterceptor {
            func decide(after _: AttemptEnd, of _: AttemptContext) async -> InterceptorDecision { .retry(after: .zero) }
        }
        server.respond { _ in .status(401) }
        let request = try put(subject).intercepted(by: Again())
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.response?.statusCode == 401)
        #expect(server.requestCount == 1)
    }

    /// URLSession on Linux starts the request again.
    @Test(arguments: BodySubject.all)
    func aSuspendedUploadIsCompleteOrFails(_ subject: BodySubject) async throws {
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
        // The reused connection fails while the body is sent. libcurl may send a PUT again by itself.
        @Test(
            arguments: BodyKind.all,
            [(.put, .reset), (.put, .close), (.post, .reset), (.post, .close)] as [(HTTPMethod, Reply.Step)])
        func aDeadConnectionIsReportedOrReplaced(
            _ kind: BodyKind, _ loss: (method: HTTPMethod, step: Reply.Step)
        ) async throws {
            let lost = Reply.status(200).performing(loss.step, at: .requestBody(afterBytes: 100_000))
            server.enqueue([.status(200), lost, .status(200)])
            let transport = try CurlTransport.alone()
            _ = try await Sending(server.get("/first"), transport).response()
            let body = Data.patterned(1_500_000)
            let request = try kind.set(Request<Data>(method: loss.method, url: server.url("/upload")), body, directory)
            let code = try await Sending(request, transport).result().code
            // libcurl may notice the end of the connection while it sends or while it receives.
            switch (loss.method, kind.canRepeat) {
            case (.put, true): #expect(code == nil || code == .connectionLost)
            case (.put, false): #expect(code == .bodyNotReplayable || code == .connectionLost)
            // The server may have processed the request, so the lost connection is reported.
            default: #expect(code == .connectionLost)
            }
            let seen = server.recordedRequests.filter { $0.path == "/upload" }
            #expect(seen.first?.connectionNumber == 1)
            #expect(seen.filter(\.isBodyComplete).map(\.body) == (code == nil ? [body] : []))
        }
    }
#endif

@Suite(.timeLimit(.minutes(5))) struct FileBodyTests {
    private let server: TestServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        server.respond { _ in .status(200) }
    }

    /// The file is the body, or a part between fields of a form.
    enum Place: CaseIterable {
        case alone, inForm

        func put(_ file: URL, _ request: Request<Data>) -> Request<Data> {
            guard self == .inForm else { return request.body(fromFile: file) }
            var form = MultipartForm()
            form.append("before", name: "before")
            form.append(file: file, name: "file")
            form.append("behind", name: "behind")
            return request.multipart(form)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func formArrivesWithItsLength(_ subject: ConformingTransport) async throws {
        server.enqueue([.status(503), .status(307, headerFields: [("Location", "/there")]), .status(200)])
        let contents = [0, 1, 65_536, 1_000_001].map { Data.patterned($0) }
        var form = MultipartForm()
        for (index, content) in contents.enumerated() {
            try content.write(to: directory.file("\(index).bin"))
            form.append("value \(index)", name: "field \(index)")
            form.append(file: directory.file("\(index).bin"), name: "file \(index)")
            form.append(content, name: "data \(index)")
            form.append(byteCount: Int64(content.count), name: "stream \(index)") { ScriptedInput(content) }
        }
        let expected = try form.rendered()
        let request = Request<Data>.put(server.url()).multipart(form)
            .retries(RetryPolicy(maxRetries: 1, baseDelay: .nanoseconds(1)))
        let response = try await Sending(request, over: subject.transport).response()
        #expect(response.transfer.upload.completedBytes == Int64(expected.count))
        for _ in 0..<3 {
            let seen = try await server.takeRequest()
            #expect(seen.values(of: "Content-Length") == ["\(expected.count)"])
            #expect(seen.value(of: "Transfer-Encoding") == nil && seen.value(of: "Expect") == nil)
            #expect(seen.body == expected)
            let type = try #require(seen.value(of: "Content-Type"))
            let parts = try FormParser.parse(seen.body, contentType: type)
            #expect(parts.filter { $0.name.hasPrefix("file") }.map(\.content) == contents)
            #expect(parts.count == 16)
        }
    }

    /// A file that no user can read, not even root.
    private static func unreadableFile(in directory: TemporaryDirectory) throws -> URL? {
        if getuid() == 0 {
            #if os(Linux)
                let devices = URL(filePath: "/sys/devices/pci0000:00")
                let names = (try? FileManager.default.contentsOfDirectory(atPath: devices.path)) ?? []
                return names.map { devices.appending(path: $0 + "/rescan") }.first { file in
                    FileManager.default.fileExists(atPath: file.path) && open(file.path, O_RDONLY) < 0
                }
            #else
                return nil
            #endif
        }
        let file = directory.file("secret")
        try Data("x".utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: file.path)
        return file
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func aFileThatCannotBeSentIsReported(_ subject: ConformingTransport, _ place: Place) async throws {
        mkfifo(directory.file("pipe").path, 0o600)
        let files = [
            directory.url, directory.file("none"), directory.file("pipe"), URL(filePath: "/dev/null"),
            // The size of this file is reported as 0, but it has bytes.
            URL(filePath: "/proc/self/status"), directory.file("name/of\0anything"),
            try Self.unreadableFile(in: directory),
        ]
        for file in files.compactMap(\.self) {
            let error = try await Sending(place.put(file, .put(server.url())), over: subject.transport).error()
            error.expect(.bodyUnreadable)
        }
        try await server.expectNothingWhole()
    }

    @Test func urlThatIsNotAFileURLIsRefused() async throws {
        let web = try #require(URL(string: "https://user:hunter2@stub/file"))
        for place in Place.allCases {
            let server = StubServer()
            let error = try await Sending(place.put(web, .put("http://stub/")), over: server.transport).error()
            #expect(error.message.contains("not a file URL"))
            #expect(!error.description.contains("hunter2"))
            #expect(server.exchanges.count == 0)
        }
    }

    private static let byteCount: Int64 = 24 << 20

    /// Sends a file that exceeds the buffers on the network path, and changes it when the first byte has arrived.
    private func send(
        _ subject: ConformingTransport, _ place: Place, change: (URL) throws -> Void
    ) async throws -> (error: RequestError, server: TestServer) {
        let file = directory.file("large")
        try Data().write(to: file)
        truncate(file.path, off_t(Self.byteCount))
        let gate = Gate()
        let server = try TestServer(bodyLimitBytes: 1)
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
        let sending = Sending(place.put(file, .put(server.url())), over: subject.transport)
        try await gate.reached()
        try change(file)
        gate.open()
        return (try await sending.error(), server)
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func aFileThatShrinksFailsTheRequest(_ subject: ConformingTransport, _ place: Place) async throws {
        let (error, server) = try await send(subject, place) { truncate($0.path, 1_000) }
        #expect(error.code == .bodyUnreadable, "\(error)")
        #expect(error.message.contains("shorter"))
        try await server.expectNothingWhole()
    }

    /// A file that is the complete body is sent with its announced length, see ``TransportConformanceTests``.
    @Test(arguments: ConformingTransport.all)
    func fileThatGrowsFailsAForm(_ subject: ConformingTransport) async throws {
        let (error, server) = try await send(subject, .inForm) { truncate($0.path, off_t(Self.byteCount + 1)) }
        #expect(error.code == .bodyUnreadable, "\(error)")
        #expect(error.message.contains("longer"))
        try await server.expectNothingWhole()
    }
}

#if canImport(CLibcurl)
    /// Tests bodies from sequences with libcurl only, because URLSession on Linux cannot wait for them.
    @Suite(.timeLimit(.minutes(5))) struct SequenceBodyTests {
        private let server: TestServer

        init() throws { server = try TestServer(always: .status(200)) }

        private struct Failure: Error, Equatable {}

        /// A sequence may throw after all declared bytes.
        @Test(arguments: [0, 1, 40_000, 3_000_000, 5_000_000], [nil, 5_000_000] as [Int64?])
        func aSequenceThatThrowsFailsTheRequest(_ byteCount: Int, _ length: Int64?) async throws {
            let chunks = Chunks.of(Data(count: byteCount)) { throw Failure() }
            let error = try await Sending(Request<Data>.put(server.url()).body(chunks, byteCount: length)).error()
            #expect(error.code == .bodyUnreadable)
            #expect(error.underlying as? Failure == Failure())
            try await server.expectNothingWhole()
        }

        /// The behaviour of an iterator after its end is undefined.
        @Test(arguments: [nil, 30_000] as [Int64?])
        func aSequenceIsNotReadAfterItsEnd(_ length: Int64?) async throws {
            let ends = EventLog<Void>()
            let chunks = Chunks.of(Data(count: 30_000)) {
                ends.record(())
                return ends.count == 1 ? nil : Data("more".utf8)
            }
            _ = try await Sending(Request<Data>.put(server.url()).body(chunks, byteCount: length)).response()
            #expect(try await server.takeRequest().bodyByteCount == 30_000)
            #expect(ends.count == 1)
        }

        @Test func chunksGoOutAsTheyCome() async throws {
            let gates = (0..<3).map { _ in Gate() }
            server.enqueue(
                gates.enumerated().reduce(Reply.status(200)) { reply, next in
                    reply.performing(.wait(next.element), at: .requestBody(afterBytes: Int64(next.offset + 1)))
                })
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let sending = Sending(Request<Data>.put(server.url()).body(chunks))
            for (index, gate) in gates.enumerated() {
                source.yield(Data([UInt8(index)]))
                try await gate.reached()
                gate.open()
            }
            source.finish()
            _ = try await sending.response()
            #expect(try await server.takeRequest().body == Data([0, 1, 2]))
        }

        /// No code of the caller runs on the engine's thread, which serves all requests.
        @Test(arguments: [true, false])
        func cancellingEndsTheTaskThatWaits(_ isCancelledByTheCaller: Bool) async throws {
            let gate = Gate()
            server.enqueue(
                Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 3))
                    .performing(.reset, at: .requestBody(afterBytes: 3)))
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let ended = EventLog<String>()
            source.onTermination = { ended.record("\($0) on \(currentThreadName())") }
            let waits = EventLog<Void>()
            let body = Chunks {
                let isFirst = Locked(true)
                return {
                    let isFirst = isFirst.withLock { isFirst in
                        defer { isFirst = false }
                        return isFirst
                    }
                    if isFirst { return Data("abc".utf8) }
                    waits.record(())
                    for await chunk in chunks { return chunk }
                    return nil
                }
            }
            let sending = Sending(Request<Data>.put(server.url()).body(body))
            try await gate.reached()
            // The stream is notified of its end only while it waits for a chunk.
            await waits.wait()
            if isCancelledByTheCaller { sending.operation.cancel() } else { gate.open() }
            let code = try await sending.error().code
            #expect(code == (isCancelledByTheCaller ? .cancelled : .connectionLost))
            let how = await ended.wait()
            #expect(how.count == 1 && how[0].hasPrefix("cancelled"))
            #expect(!how.joined().contains("convoy.curl"))
            try await server.expectNothingWhole()
        }

        @Test func sequenceThatNeverComesTimesOut() async throws {
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            let request = Request<Data>.put(server.url()).body(chunks).idleTimeout(.milliseconds(200))
            #expect(try await Sending(request).error().code == .timedOut)
            source.finish()
            try await server.expectNothingWhole()
        }

        // The server stops reading the upload. 300 other requests then give the client time to ask the sequence for
        // more chunks.
        @Test func aSequenceIsReadOnlyAsFastAsTheNetwork() async throws {
            let gate = Gate()
            server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
            server.respond { _ in .status(200) }
            let (chunk, count, asked) = (Data(repeating: 5, count: 64 << 10), 700, EventLog<Void>())
            let chunks = Chunks {
                return {
                    asked.record(())
                    return asked.count <= count ? chunk : nil
                }
            }
            let transport = try CurlTransport.alone()
            let sending = Sending(Request<Data>.put(server.url()).body(chunks), transport)
            try await gate.reached()
            for _ in 0..<300 { _ = try await Sending(server.get("/other"), transport).response() }
            // The system's buffers between client and server hold less than half of the body.
            #expect(asked.count < count / 2, "\(asked.count) of \(count)")
            gate.open()
            #expect(try await sending.response().transfer.upload.completedBytes == Int64(count * chunk.count))
            #expect(asked.count == count + 1)
            let upload = server.recordedRequests.first { $0.method == "PUT" }
            #expect(upload?.bodyByteCount == Int64(count * chunk.count))
        }

        // The server responds and continues to read. The remaining chunks must not become part of the next request.
        @Test(arguments: [nil, 6] as [Int64?])
        func answerBeforeTheLastChunkEndsTheConnection(_ length: Int64?) async throws {
            let early = Data("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly".utf8)
            server.enqueue(
                Reply(steps: []).performing(.write(early), at: .requestBody(afterBytes: 3)))
            server.respond { .status(200, body: $0.path) }
            let (chunks, source) = AsyncStream.makeStream(of: Data.self)
            source.yield(Data("abc".utf8))
            let transport = try CurlTransport.alone()
            let received = EventLog<Int64>()
            let sending = Sending(Request<Data>.put(server.url("/put")).body(chunks, byteCount: length), transport) {
                $0.onProgress { if $0.download.completedBytes == 5 { received.record(5) } }
            }
            await received.wait()
            source.yield(Data("def".utf8))
            source.finish()
            #expect(try await sending.response().value == Data("early".utf8))
            let next = try await Sending(Request<String>.get(server.url("/next")), transport).response()
            #expect(next.value == "/next")
            try await server.requestsReceived(count: 2)
            #expect(server.recordedRequests.map(\.connectionNumber).sorted() == [1, 2])
            #expect(server.rejectedRequestCount == 0)
        }

        @Test func streamIsReadAndClosedOnAThreadOfItsOwn() async throws {
            let calls = EventLog<String>()
            for reply in [Reply.status(200), Reply.status(200).performing(.reset, at: .requestBody(afterBytes: 1))] {
                let server = try TestServer()
                server.enqueue(reply)
                let before = calls.events.count { $0.hasPrefix("close") }
                let request = Request<Data>.put(server.url()).body {
                    calls.record("make on \(currentThreadName())")
                    return ScriptedInput(Data(count: 2_000_000), calls: calls)
                }
                _ = try await Sending(request).result()
                await look { calls.events.count { $0.hasPrefix("close") } > before }
                #expect(calls.events.count { $0.hasPrefix("close") } == before + 1)
            }
            #expect(calls.events.contains { $0.hasPrefix("make") && !$0.isEmpty })
            #expect(!calls.events.contains { $0.contains("convoy.curl") })
        }
    }
#endif
