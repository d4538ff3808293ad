import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct ResponseLinesTests {
    private func read(_ lines: ResponseLines) async -> (lines: [String], code: RequestError.Code?) {
        var read: [String] = []
        do throws(RequestError) {
            for try await line in lines { read.append(line) }
            return (read, nil)
        } catch { return (read, error.code) }
    }

    @Test func linesComeInOrderAndEndWithTheBody() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            for piece in ["a\r", "\nb", "c\n\n", "d"] { exchange.send(Data(piece.utf8)) }
            exchange.finish()
        }
        var iterator = server.manager().lines(of: .stub("a")).makeAsyncIterator()
        for line in ["a", "bc", "", "d", nil, nil] { #expect(try await iterator.next() == line) }
    }

    /// A cancellation is reported before the lines that have arrived.
    @Test func cancellationStopsLinesThatHaveArrived() async throws {
        let server = StubServer.held()
        let lines = server.manager().lines(of: .stub("a"))
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("1\n2\n3\n".utf8))
        var iterator = lines.makeAsyncIterator()
        #expect(try await iterator.next() == "1")
        lines.operation.cancel()
        for _ in 0..<2 {
            let error = await #expect(throws: RequestError.self) { try await iterator.next() }
            #expect(error?.code == .cancelled)
        }
    }

    @Test func lineOverTheLimitEndsTheRequest() async throws {
        let server = StubServer.held()
        let lines = server.manager().lines(of: .stub("a"), maxLineBytes: 4)
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("1234\n12345".utf8))
        var iterator = lines.makeAsyncIterator()
        #expect(try await iterator.next() == "1234")
        for _ in 0..<2 {
            let error = await #expect(throws: RequestError.self) { try await iterator.next() }
            #expect(error?.code == .bodyTooLarge)
            #expect(error?.request == "GET http://stub/a")
        }
        #expect(await lines.operation.resultCode() == .bodyTooLarge)
        lines.operation.scheduler.taskControl.sync {}
        #expect(exchange.isCancelled)
    }

    @Test(arguments: ConformingTransport.all)
    func bodyThatIsCutIsAnErrorAfterItsLines(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = String(repeating: "line\n", count: 100)
        server.enqueue(Reply.status(200, body: body).performing(.close, at: .responseBody(afterBytes: 52)))
        let result = await read(subject.manager().lines(of: .get(server.url())))
        #expect(result.lines == Array(repeating: "line", count: 10))
        #expect(result.code == .connectionLost)
    }

    @Test(arguments: ConformingTransport.all)
    func leavingTheLoopClosesTheConnection(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = String(repeating: "line\n", count: 10_000)
        server.enqueue(Reply.status(200, body: body).stalling(afterBodyBytes: 20_000))
        var count = 0
        for try await line in subject.manager().lines(of: .get(server.url())) {
            #expect(line == "line")
            count += 1
            if count == 100 { break }
        }
        #expect(count == 100)
        try await server.connectionsClosed()
    }

    @Test(arguments: ConformingTransport.all)
    func cancellingTheTaskEndsTheReading(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(Reply.status(200, body: "one\ntwo\n").stalling(afterBodyBytes: 5))
        let (lines, first) = (subject.manager().lines(of: .get(server.url())), EventLog<String>())
        let reader = Task { () -> RequestError.Code? in
            do throws(RequestError) {
                for try await line in lines { first.record(line) }
                return nil
            } catch { return error.code }
        }
        #expect(await first.wait() == ["one"])
        reader.cancel()
        #expect(await reader.value == .cancelled)
        try await server.connectionsClosed()
    }

    /// The transport is paused while the caller does not read, and no line is lost.
    @Test(arguments: ConformingTransport.all)
    func readerThatWaitsGetsEverything(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let line = Data((String(repeating: "x", count: 999) + "\n").utf8)
        let count = 8_000
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(count * line.count)\r\n\r\n"
        server.enqueue(Reply(steps: [.write(Data(head.utf8)), .writeRepeatedly(line, count: count)]))
        let lines = subject.manager().lines(of: .get(server.url()))
        await lines.operation.received(bytes: 1 << 20).wait()
        var read = 0
        for try await line in lines {
            #expect(line.utf8.count == 999)
            read += 1
        }
        #expect(read == count)
    }
}

@Suite struct LineParserTests {
    private static func lines(_ pieces: [Data], maxBytes: Int = 1 << 20) throws -> [String] {
        var parser = LineParser(maxBytes: maxBytes)
        var lines: [String] = []
        for piece in pieces {
            parser.append(piece)
            while let line = try parser.next() { lines.append(line) }
        }
        if let last = parser.finish() { lines.append(last) }
        return lines
    }

    @Test(
        arguments: [
            ("", []), ("a", ["a"]), ("a\n", ["a"]), ("\n", [""]), ("\r", [""]), ("\r\n", [""]), ("\n\r", ["", ""]),
            ("a\nb", ["a", "b"]), ("a\r\nb\rc\n", ["a", "b", "c"]), ("a\n\nb", ["a", "", "b"]),
            ("a\r\r\nb\r\n\r\n", ["a", "", "b", ""]), ("\u{FEFF}a\n\u{FEFF}b", ["a", "\u{FEFF}b"]), ("\u{FEFF}", []),
            ("\u{FEFF}\n", [""]), ("a\u{2028}b\u{85}c\u{B}d", ["a\u{2028}b\u{85}c\u{B}d"]), ("a\u{0}b\n", ["a\u{0}b"]),
            ("ü\n\u{301}\n", ["ü", "\u{301}"]), (" \n", [" "]),
        ] as [(String, [String])])
    func linesEndWithLFOrCRLFOrCR(text: String, lines: [String]) throws {
        #expect(try Self.lines([Data(text.utf8)]) == lines)
        #expect(try Self.lines(text.utf8.map { Data([$0]) }) == lines)
    }

    @Test func invalidUTF8IsReplaced() throws {
        let bytes: [UInt8] = [0x61, 0xFF, 0x0A, 0xE2, 0x82, 0x0A, 0xC3, 0xBC, 0x0A, 0xC3]
        for pieces in [[Data(bytes)], bytes.map { Data([$0]) }] {
            #expect(try Self.lines(pieces) == ["a\u{FFFD}", "\u{FFFD}", "ü", "\u{FFFD}"])
        }
    }

    @Test(arguments: [1, 3, 7, 100])
    func lineOverTheLimitIsAnError(pieceBytes: Int) throws {
        func lines(_ text: String) throws -> [String] {
            let bytes = Data(text.utf8)
            let pieces = stride(from: 0, to: bytes.count, by: pieceBytes).map {
                bytes[$0..<min($0 + pieceBytes, bytes.count)]
            }
            return try Self.lines(pieces, maxBytes: 5)
        }
        #expect(try lines("12345\r\n12345\n\n12345") == ["12345", "12345", "", "12345"])
        for text in ["123456\n", "1\n123456", "123456"] {
            #expect(throws: RequestError.self) { try lines(text) }
        }
    }
}
