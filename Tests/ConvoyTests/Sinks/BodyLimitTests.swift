// Tests `maxBodyBytes(_:)` for every destination of a body.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct BodyLimitTests {
    /// A destination of a body.
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

    @Test(arguments: Place.allCases, [true, false])
    func oneByteMoreIsTooLarge(place: Place, isAnnounced: Bool) async throws {
        let server = StubServer { exchange in
            let body = Self.body
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: isAnnounced ? Int64(body.count) : nil))
            for piece in body.pieces(of: 10) { exchange.send(piece) }
            exchange.finish()
        }
        let (code, byteCount) = try await send(.stub("a").maxBodyBytes(99), to: place, over: server.transport)
        #expect(code == .bodyTooLarge)
        #expect(byteCount ?? 0 <= (isAnnounced ? 0 : 99))
        let exact = try await send(.stub("a").maxBodyBytes(100), to: place, over: server.transport)
        #expect(exact.code == nil)
        if place != .nowhere { #expect(exact.byteCount == 100) }
    }

    /// Without a limit of the caller, only a body in memory is limited.
    @Test(arguments: Place.allCases)
    func withoutALimitOnlyMemoryHasOne(place: Place) async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 65 << 20))
            exchange.send(Data("hello\n".utf8))
            exchange.finish()
        }
        let (code, _) = try await send(.stub("a"), to: place, over: server.transport)
        // A file must have the announced length, so the body of six bytes is a lost connection there.
        #expect(code == (place == .memory ? .bodyTooLarge : place == .file ? .connectionLost : nil))
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func limitHoldsOverTransports(_ subject: ConformingTransport, place: Place) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { $0.path == "/chunked" ? .chunked(Self.body.pieces(of: 10)) : .status(200, body: Self.body) }
        for path in ["/chunked", "/plain"] {
            let request = Request<Data>.get(server.url(path))
            let over = try await send(request.maxBodyBytes(99), to: place, over: subject.transport)
            #expect(over.code == .bodyTooLarge, "\(path)")
            let exact = try await send(request.maxBodyBytes(100), to: place, over: subject.transport)
            #expect(exact.code == nil, "\(path)")
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
