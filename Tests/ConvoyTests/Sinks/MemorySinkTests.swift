import Convoy
import Foundation
import Testing

@Suite struct MemorySinkTests {
    /// Sends a body in pieces, whose length is not announced.
    private func send(_ pieces: [Int], _ limit: Int64) async throws -> RequestOperation<Data>.Result {
        let server = StubServer { $0.answer(200, pieces: pieces.map { Data(repeating: 7, count: $0) }) }
        return try await Sending(.stub("a").maxBodyBytes(limit), over: server.transport).result()
    }

    @Test(
        arguments: [
            ([], 0), ([], 10), ([0], 10), ([10], 10), ([5, 5], 10), ([0, 10, 0], 10),
            (Array(repeating: 1, count: 10), 10),
        ] as [([Int], Int64)])
    func bodyUpToTheLimitIsWhole(pieces: [Int], limit: Int64) async throws {
        let body = try await send(pieces, limit).get().value
        #expect(body == Data(repeating: 7, count: pieces.reduce(0, +)))
    }

    @Test(arguments: [([1], 0), ([11], 10), ([10, 1], 10), ([5, 5, 1], 10), ([1_000_000], 10)] as [([Int], Int64)])
    func oneByteMoreEndsTheRequest(pieces: [Int], limit: Int64) async throws {
        let error = try #require(try await send(pieces, limit).failure as? RequestError)
        error.expect(.bodyTooLarge, status: 200)
        #expect(error.message.contains("the request allows \(limit) bytes"))
    }

    @Test func transferIsCancelledAtTheLimit() async throws {
        let server = StubServer.held()
        let sending = Sending(.stub("a").maxBodyBytes(10), over: server.transport)
        let exchange = try await server.answered()
        exchange.send(Data(count: 11))
        #expect(try await sending.error().code == .bodyTooLarge)
        // The sink drops later bytes.
        exchange.send(Data(count: 11))
        exchange.finish()
        #expect(sending.operation.progress.download.completedBytes <= 10)
        #expect(sending.outcomes.count == 1)
    }

    /// Bytes before a head are dropped, and so is a body that was refused.
    @Test(arguments: [200, 401]) func responseThatArrivesAgainStartsTheBodyAfresh(firstStatus: Int) async throws {
        let server = StubServer { exchange in
            exchange.send(Data("early".utf8))
            exchange.respond(ResponseHead(statusCode: firstStatus, headerFields: ["A": "first"], expectedBytes: 26))
            exchange.send(Data("first body, and more of it".utf8))
            exchange.respond(ResponseHead(statusCode: 200, headerFields: ["A": "second"], expectedBytes: 6))
            for piece in ["sec", "ond"] { exchange.send(Data(piece.utf8)) }
            exchange.finish()
        }
        // The limit applies to each body separately. Both bodies together exceed the limit.
        let whole = try await Sending(.stub("a").maxBodyBytes(26), over: server.transport).response()
        #expect(whole.value == Data("second".utf8))
        #expect(whole.headerFields["A"] == "second")
        #expect(whole.transfer.download.completedBytes == 6)
        #expect(whole.transfer.download.totalBytes == 6)
    }

    @Test func anInterimResponseIsNotTheResponse() async throws {
        let server = StubServer { exchange in
            for statusCode in [100, 103, 199] {
                exchange.respond(ResponseHead(statusCode: statusCode, expectedBytes: 1 << 40))
            }
            exchange.answer(200, body: Data("x".utf8))
        }
        // `.any` accepts every status. If a 1xx counted as the response, its declared length would exceed the limit.
        let response = try await Sending(.stub("a").acceptableStatusCodes(.any), over: server.transport).response()
        #expect(response.statusCode == 200)
        #expect(response.value == Data("x".utf8))
    }

    @Test func acceptedThenRefusedAnswerIsRefused() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("hel".utf8))
            exchange.answer(500, body: Data("sorry".utf8))
        }
        let error = try await Sending(.stub("a"), over: server.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("sorry".utf8))
    }
}

@Suite(.timeLimit(.minutes(5))) struct BodyLimitTests {
    enum Place: CaseIterable, Sendable {
        case memory, nowhere, stream, chunks, lines, file
    }

    /// Sends a GET whose body goes to a destination, and reads it completely there.
    ///
    /// - Returns: the error code, and the number of received bytes, if it is known.
    private func send(
        _ request: Request<Data>, to place: Place, over transport: any Transport
    ) async throws -> (code: RequestError.Code?, byteCount: Int?) {
        switch place {
        case .memory:
            let result = try await Sending(request, over: transport).result()
            return (result.code, try? result.get().value.count)
        case .nowhere:
            let result = try await Sending(request.ignoringBody(), over: transport).result()
            return (result.code, nil)
        case .stream:
            let sending = Sending(request.written { OutputStream(toMemory: ()) }, over: transport)
            let result = try await sending.result()
            return (result.code, try? result.get().value?.count)
        case .chunks, .lines:
            let manager = RequestManager(configuration: .init(transport: .custom(transport)))
            var count = 0
            do {
                if case .chunks = place {
                    for try await chunk in manager.chunks(of: request) { count += chunk.count }
                } else {
                    for try await line in manager.lines(of: request) { count += line.utf8.count + 1 }
                }
                return (nil, count)
            } catch { return (error.code, count) }
        case .file:
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let result = try await Sending(request.saved(to: file), over: transport).result()
            let content = try? Data(contentsOf: file)
            if result.code != nil { #expect(content == nil) }
            return (result.code, content?.count)
        }
    }

    private static let body = Data(String(repeating: "123456789\n", count: 10).utf8)

    /// Without a limit of the caller, only a body in memory is limited.
    @Test(arguments: Place.allCases)
    func withoutALimitOnlyMemoryHasOne(place: Place) async throws {
        let server = StubServer { $0.answer(200, expectedBytes: 65 << 20, pieces: [Data("hello\n".utf8)]) }
        let (code, _) = try await send(.stub("a"), to: place, over: server.transport)
        // A file must have the announced length, so the body of six bytes is a lost connection there.
        #expect(code == (place == .memory ? .bodyTooLarge : place == .file ? .connectionLost : nil))
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func limitHoldsOverTransports(_ subject: ConformingTransport, place: Place) async throws {
        let server = try TestServer()
        server.respond { $0.path == "/chunked" ? .chunked(Self.body.pieces(of: 10)) : .status(200, body: Self.body) }
        for path in ["/chunked", "/plain"] {
            let request = Request<Data>.get(server.url(path))
            let over = try await send(request.maxBodyBytes(99), to: place, over: subject.transport)
            #expect(over.code == .bodyTooLarge, "\(path)")
            #expect(over.byteCount ?? 0 <= (path == "/plain" ? 0 : 99), "\(path)")
            let exact = try await send(request.maxBodyBytes(100), to: place, over: subject.transport)
            #expect(exact.code == nil, "\(path)")
            if place != .nowhere { #expect(exact.byteCount == 100, "\(path)") }
        }
    }

    /// The limit includes the bytes that an earlier operation left in the part.
    @Test func limitOfAFileIsForTheWhole() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.file("target")
        let version = FileVersion(FileVersion.seeded(3, byteCount: 300_000))
        let cut = StubServer { version.answer($0, sending: 200_000, thenFailing: .cut) }
        _ = try await Sending(Request.stub("file").saved(to: file), over: cut.transport).error()
        let whole = StubServer { version.answer($0) }
        let request = Request.stub("file").maxBodyBytes(299_999).saved(to: file)
        #expect(try await Sending(request, over: whole.transport).error().code == .bodyTooLarge)
        #expect(whole.exchanges.events.first?.request.headerFields["Range"] == "bytes=200000-")
        // The part is kept for a request with a higher limit.
        let more = Request.stub("file").maxBodyBytes(300_000).saved(to: file)
        _ = try await Sending(more, over: whole.transport).response()
        #expect(try Data(contentsOf: file) == version.content)
    }

    @Test func limitOfSegmentsIsForTheWhole() async throws {
        let directory = try TemporaryDirectory()
        let version = FileVersion(FileVersion.seeded(4, byteCount: 4_000_000))
        let server = StubServer { version.answer($0) }
        func fetch(_ limit: Int64) async -> RequestError.Code? {
            let request = Request.stub("file").maxBodyBytes(limit)
            let download = server.manager().downloadInSegments(request, to: directory.file("\(limit)"), segments: 2)
            do throws(RequestError) { _ = try await download.file() } catch { return error.code }
            return nil
        }
        #expect(await fetch(3_999_999) == .bodyTooLarge)
        #expect(server.exchanges.count == 1)
        #expect(await fetch(4_000_000) == nil)
        #expect(try directory.entries == ["4000000"])
    }
}
