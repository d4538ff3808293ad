// Tests bodies: cut off, with wrong lengths, in chunks and in other codings.
#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct FramingFaultTests {
        /// The head is cut off at every byte, including the last line end.
        @Test(arguments: [Reply.Step.close, .reset])
        func headCutAnywhereIsAnError(step: Reply.Step) async throws {
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: b\r\n\r\n".utf8)
            let server = try TestServer()
            server.respond { request in
                let count = request.query.flatMap { Int($0) } ?? 0
                return Reply(steps: [.write(head.prefix(count)), step])
            }
            for count in 0..<head.count {
                let result = try await Sending(server.get("/?\(count)").acceptableStatusCodes(.any)).result()
                #expect([.connectionLost, .badResponse].contains(result.code), "\(count) bytes: \(result)")
            }
            // With its last byte the head is complete, so it is a response.
            let whole = try await Sending(server.get("/?\(head.count)")).response()
            #expect(whole.headerFields["X-A"] == "b")
        }

        /// A body that ends with its connection is incomplete when the connection is reset.
        @Test func resetOfABodyWithoutALengthIsConnectionLost() async throws {
            let reply = Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\n\r\nhello".utf8)), .reset])
            try await Fault.expect(.connectionLost, of: reply, status: 200)
        }

        @Test(arguments: [
            "", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n",
            "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n",
        ])
        func chunkedBodyWithoutItsEndIsConnectionLost(body: String) async throws {
            try await Fault.expect(.connectionLost, of: .chunked(raw: body), status: 200)
        }

        /// libcurl before 8.7 accepts a CR without LF as the end of a complete chunked body.
        @Test(arguments: ["5\r\nhello\r\n0\r\n\r", "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r"])
        func chunkedBodyWithoutItsLastLineFeedIsConnectionLost(body: String) async throws {
            let reply = Reply.chunked(raw: body)
            if CurlLibrary.version < 0x08_07_00 {
                #expect(try await Fault.response(to: reply).value == Data("hello".utf8))
            } else {
                try await Fault.expect(.connectionLost, of: reply, status: 200)
            }
        }

        @Test(arguments: [
            "-5\r\nhello", "FFFFFFFFFFFFFFFF\r\nhello", "8000000000000000\r\nhello", "FFFFFFFFFFFFFFFFF\r\nhello",
            "zz\r\nhello", "0x5\r\nhello", "\r\nhello", "5\r\nhello0\r\n", "5\r\nhello, and more",
            // The client allocates no memory for the announced length of a chunk.
            "7FFFFFFFFFFFFFF0\r\nhello",
        ])
        func malformedChunkIsAnError(chunk: String) async throws {
            let reply = Reply.chunked(raw: chunk + "\r\n0\r\n\r\n")
            try await Fault.expect(.badResponse, .connectionLost, .bodyTooLarge, of: reply, status: 200)
        }

        /// libcurl 7.88 limits each trailer line to 4 KiB.
        @Test(arguments: [
            "5;a=b\r\nhello\r\n0", "5;a=\"b;c\";d\r\nhello\r\n0", "5\r\nhello\r\n0;a=b", "00005\r\nhello\r\n000",
            "5\r\nhello\r\n0\r\nX-A: b\r\nX-C: d",
            "5\r\nhello\r\n0\r\nX-A: \(String(repeating: "a", count: 3_000))",
        ])
        func chunkExtensionsAndTrailersLeaveTheBodyAsItIs(chunks: String) async throws {
            let reply = Reply.chunked(raw: chunks + "\r\n\r\n", closes: false)
            let (first, connections) = try await Fault.next(after: reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            // The connection is still usable.
            #expect(connections == [1, 1, 1])
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct LengthFaultTests {
        /// A complete response among extra bytes after another response.
        ///
        /// A client must not use it as the response to its next request.
        private static let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

        @Test(arguments: [
            ("Content-Length: 5", "hello, and more"), ("Content-Length: 5", "hello" + evil),
            ("Content-Length: 5", "hello!"),
            ("Content-Length: 5", "hello\r\n"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n" + evil),
        ])
        func bytesAfterTheBodyAreNotDelivered(field: String, body: String) async throws {
            let (first, connections) = try await Fault.next(after: .ok(field, body: body, closes: false))
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            #expect(connections == [1, 2, 2] || field.hasSuffix("chunked"))
        }

        @Test(arguments: [
            "5\r\nContent-Length: 6", "6\r\nContent-Length: 5", "5, 6", "5\r\nX-A: b\r\ncontent-length: 0",
        ])
        func lengthsThatDifferAreABadResponse(lengths: String) async throws {
            let error = try await Fault.error(of: .ok("Content-Length: \(lengths)", body: "hello!")) { $0 }
            #expect(error.code == .badResponse, "\(error)")
            let same = Reply.ok("Content-Length: 5\r\nContent-Length: 5", body: "hello")
            #expect(try await Fault.response(to: same).value == Data("hello".utf8))
        }

        @Test(arguments: ["-5", "0x3", "18446744073709551617", "9223372036854775808", "5x", "five", ""])
        func anInvalidLengthIsABadResponse(length: String) async throws {
            for closes in [true, false] {
                let reply = Reply.ok("Content-Length: \(length)", body: "hello", closes: closes)
                let error = try await Fault.error(of: reply) { $0 }
                #expect(error.code == .badResponse, "closes: \(closes), \(error)")
            }
        }

        /// The lengths are the largest `Int64` and one tebibyte.
        ///
        /// A body that is not kept is streamed until the connection ends. For memory the announced body is too large,
        /// so the client reads no byte of it. For a file, the check of the free disk space races with the end of the
        /// connection.
        @Test(arguments: ["9223372036854775807", "1099511627776"])
        func hugeLengthIsNeverAllocated(length: String) async throws {
            let reply = Reply.ok("Content-Length: \(length)", body: "hello")
            let error = try await Fault.error(of: reply) { $0.ignoringBody() }
            error.expect(.connectionLost)
            #expect(error.response?.expectedBytes == Int64(length))
            let stream = try await Fault.error(of: reply) { $0.written { OutputStream(toMemory: ()) } }
            #expect(stream.code == .connectionLost, "\(stream)")
            let gate = Gate()
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n".utf8)
            // The server sends no byte of the body before the client has given up.
            let memory = try await Fault.error(of: Reply(steps: [.write(head), .wait(gate)])) { $0 }
            memory.expect(.bodyTooLarge)
            #expect(gate.arrivals == 1)
            let directory = try TemporaryDirectory()
            let file = try await Fault.error(of: reply) { $0.saved(to: directory.file("target")) }
            #expect([.connectionLost, .diskFull].contains(file.code), "\(file)")
            #expect(!FileManager.default.fileExists(atPath: directory.file("target").path))
        }

        @Test(arguments: [
            "Content-Length: 3\r\nTransfer-Encoding: chunked", "Content-Length: 300\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 3", "Transfer-Encoding: chunked\r\nContent-Length: 300",
            "Transfer-Encoding: Chunked\r\nContent-Length: 0",
        ])
        func chunkedWinsOverALength(lines: String) async throws {
            let reply = Reply.ok(lines, body: "5\r\nhello\r\n0\r\n\r\n", closes: false)
            let (first, _) = try await Fault.next(after: reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
        }
    }

    /// Tests transfer codings other than a single, final `chunked` in HTTP/1.1 (RFC 9112, section 6).
    @Suite(.timeLimit(.minutes(5))) struct TransferCodingFaultTests {
        private static let chunks = "5\r\nhello\r\n0\r\n\r\n"

        /// A 200 with this Transfer-Encoding field, which further fields may follow, and a chunked body.
        private static func reply(_ coding: String, body: String = chunks, version: String = "1.1") -> Reply {
            .raw("HTTP/\(version) 200 OK\r\nTransfer-Encoding: \(coding)\r\n\r\n\(body)")
        }

        @Test(arguments: [
            "xchunked", "gzip", "gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "chunked, gzip",
            "chunked, chunked",
            "chunked\r\nTransfer-Encoding: chunked", "foo\r\nContent-Length: 15", "identity",
            "identity\r\nContent-Length: 15", "chunked;a=b", "\"chunked\"", "", "chunked in HTTP/1.0",
            // Spaces and letters that are not those of ASCII.
            "\u{A0}chunked", "chunked\u{3000}", "\u{200B}chunked", "chunked\u{B}", "chun\u{212A}ed", "\u{FF43}hunked",
        ])
        func codingThatNobodyAskedForIsABadResponse(coding: String) async throws {
            let reply = coding.hasSuffix("1.0") ? Self.reply("chunked", version: "1.0") : Self.reply(coding)
            try await Fault.expect(.badResponse, of: reply, status: nil)
            let directory = try TemporaryDirectory()
            let error = try await Fault.error(of: reply) { $0.saved(to: directory.file("target")) }
            #expect(error.code == .badResponse, "\(error)")
            #expect(try directory.entries == [])
        }

        /// URLSession passes the field on unchanged, so Convoy can reject the response.
        @Test(arguments: ["xchunked", "gzip, chunked", "chunked\r\nTransfer-Encoding: chunked"])
        func urlSessionRefusesItToo(coding: String) async throws {
            let server = try TestServer(always: Self.reply(coding))
            let error = try await Sending(server.get(), over: URLSessionTransport.shared).error()
            #expect(error.code == .badResponse, "\(error)")
        }

        /// Empty members of a list are ignored (RFC 9110, section 5.6.1.2).
        @Test(arguments: ["chunked", "Chunked", ", chunked ,", "chunked\r\nContent-Length: 3"])
        func chunkedOnceIsRead(coding: String) async throws {
            #expect(try await Fault.response(to: Self.reply(coding)).value == Data("hello".utf8))
        }

        /// libcurl 8.18 and newer joins the lines.
        ///
        /// Older versions use the first one to find the end of the body.
        @Test(arguments: ["\r\n chunked", "\r\n\tchunked", ",\r\n chunked", "chunked\r\n ", "\r\n \r\n chunked"])
        func foldedCodingIsReadWholeOrRefused(value: String) async throws {
            for (body, isWhole) in [(Self.chunks, true), ("500\r\nhel", false)] {
                let directory = try TemporaryDirectory()
                let server = try TestServer(always: Self.reply(value, body: body))
                let result = try await Sending(
                    server.get().saved(to: directory.file("target")), over: CurlTransport.shared
                ).result()
                switch result {
                case .success:
                    #expect(isWhole)
                    #expect(try Data(contentsOf: directory.file("target")) == Data("hello".utf8))
                case .failure(let error):
                    #expect(error.code == .badResponse || error.code == .connectionLost && !isWhole, "\(error)")
                    #expect(try directory.entries == [])
                }
            }
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct CodingFaultTests {
        /// The text of ``EncodedBody`` as a gzip member.
        private static let gzip = Data(EncodedBody.gzip(EncodedBody.text))

        private static func reply(_ coding: String, _ body: Data) -> Reply {
            .status(200, headerFields: [("Content-Encoding", coding)], body: body)
        }

        /// An endless gzip body: each kilobyte expands to a mebibyte of zeros.
        private static let bomb = Reply(steps: [
            .write(Data("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".utf8)), .write(gzip.prefix(10)),
            .writeRepeatedly(Data(EncodedBody.mebibyteOfZeros), count: 1 << 30),
        ])

        @Test(arguments: [1, 1_000, 1_000_000, 10_000_000])
        func bombIsCutAtTheLimit(limit: Int64) async throws {
            let server = try TestServer(always: Self.bomb)
            let sending = Sending(server.get().maxBodyBytes(limit))
            let error = try await sending.error()
            error.expect(.bodyTooLarge)
            #expect(error.message.contains("\(limit)"))
            // The decoder delivers at most 64 KiB at a time, so the progress exceeds the limit by at most 64 KiB.
            #expect(sending.operation.progress.download.completedBytes <= limit + (64 << 10))
            try await server.connectionsClosed()
        }

        /// Without a limit memory grows by less than 64 MiB, because dropped bytes are never stored.
        @Test func aDroppedDecompressionBombUsesNoMemory() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                let server = try TestServer(always: Self.bomb)
                func residentBytes() -> Int {
                    let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(
                        separator: " ")
                    return (pages?.dropFirst().first.flatMap { Int($0) } ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
                }
                let before = residentBytes()
                var received: EventLog<Int64>?
                let sending = Sending(server.get().ignoringBody()) { received = $0.received(bytes: 200 << 20) }
                await received?.wait()
                #expect(residentBytes() < before + (64 << 20))
                sending.operation.cancel()
                #expect(try await sending.error().code == .cancelled)
                try await server.connectionsClosed()
            }
        }

        /// The server sends the body with its length, in chunks of one byte, delimited by the end of the connection, and
        /// with its codings in several fields, which are undone from the last.
        @Test(arguments: EncodedBody.all)
        func codedBodyIsDecoded(body: EncodedBody) async throws {
            let (bytes, fields) = (Data(body.bytes), [("Content-Encoding", body.coding)])
            let raw = Data("HTTP/1.1 200 OK\r\nContent-Encoding: \(body.coding)\r\n\r\n".utf8) + bytes
            let separate = body.coding.components(separatedBy: ", ").map { ("Content-Encoding", $0) }
            for reply in [
                Self.reply(body.coding, bytes), .chunked(bytes.map { Data([$0]) }, headerFields: fields), .raw(raw),
                .status(200, headerFields: separate, body: bytes),
            ] {
                let response = try await Fault.response(to: reply)
                #expect(response.value == Data(body.decoded))
                #expect(response.transfer.download.completedBytes == Int64(body.decoded.count))
            }
        }

        /// The coding ends before the message, so the connection is still usable.
        @Test(arguments: [
            ("gzip", gzip.dropLast(20)), ("gzip", gzip.prefix(3)), ("gzip", gzip + gzip.dropLast(4)),
            ("gzip", gzip + Data("junk".utf8)), ("gzip", Data("junk".utf8)), ("klingon, gzip", gzip),
            ("gzip, gzip, gzip, gzip, gzip, gzip", gzip),
        ])
        func damagedCodingIsABadResponse(coding: String, body: Data) async throws {
            try await Fault.expect(.badResponse, of: Self.reply(coding, body), status: 200, closes: false)
        }

        /// A truncated coding leaves no file.
        ///
        /// If the body is also short of its length, the error is the lost connection.
        @Test func codingCutShortLeavesNoFile() async throws {
            let directory = try TemporaryDirectory()
            let (file, cut) = (directory.file("target"), Self.gzip.dropLast(9))
            let error = try await Fault.error(of: Self.reply("gzip", cut), closes: false) {
                $0.decodingFile().saved(to: file)
            }
            #expect(error.code == .badResponse, "\(error)")
            #expect(!FileManager.default.fileExists(atPath: file.path))
            let fields = [("Content-Encoding", "gzip"), ("Content-Length", "\(Self.gzip.count)")]
            let reply = Reply.status(200, headerFields: fields, body: cut).disconnectingAtEnd()
            try await Fault.expect(.connectionLost, of: reply, status: 200)
        }
    }
#endif
