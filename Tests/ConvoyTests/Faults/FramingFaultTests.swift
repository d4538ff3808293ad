// Tests bodies: cut off, with wrong lengths, in chunks and in other codings.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct FramingFaultTests {
        /// The head is cut off at every byte, including the last line end.
        @Test(arguments: [Reply.Step.close, .reset])
        func headCutAnywhereIsAnError(step: Reply.Step) async throws {
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: b\r\n\r\n".utf8)
            let server = try TestServer()
            defer { server.shutDown() }
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
            try await Fault.expect(.connectionLost, of: FaultVariant("", chunked: body).reply, status: 200)
        }

        /// libcurl before 8.7 accepts a CR without LF as the end of a complete chunked body.
        @Test(arguments: ["5\r\nhello\r\n0\r\n\r", "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r"])
        func chunkedBodyWithoutItsLastLineFeedIsConnectionLost(body: String) async throws {
            let reply = FaultVariant("", chunked: body).reply
            if CurlLibrary.version < 0x08_07_00 {
                #expect(try await Fault.response(to: reply).value == Data("hello".utf8))
            } else {
                try await Fault.expect(.connectionLost, of: reply, status: 200)
            }
        }

        @Test(arguments: [
            FaultVariant("negative", chunked: "-5\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("2^64-1", chunked: "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("2^63", chunked: "8000000000000000\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("17 digits", chunked: "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("no digit", chunked: "zz\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("0x", chunked: "0x5\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("empty size", chunked: "\r\nhello\r\n0\r\n\r\n"),
            FaultVariant("no CRLF behind a chunk", chunked: "5\r\nhello0\r\n\r\n"),
            FaultVariant("more than its size", chunked: "5\r\nhello, and more\r\n0\r\n\r\n"),
            // The client allocates no memory for the announced length of a chunk.
            FaultVariant("huge", chunked: "7FFFFFFFFFFFFFF0\r\nhello"),
        ])
        func malformedChunkIsAnError(variant: FaultVariant) async throws {
            try await Fault.expect(.badResponse, .connectionLost, .bodyTooLarge, of: variant.reply, status: 200)
        }

        @Test(arguments: [
            FaultVariant("extension", chunked: "5;a=b\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant("quoted extension", chunked: "5;a=\"b;c\";d\r\nhello\r\n0\r\n\r\n", closes: false),
            FaultVariant("extension of the last", chunked: "5\r\nhello\r\n0;a=b\r\n\r\n", closes: false),
            FaultVariant("leading zeros", chunked: "00005\r\nhello\r\n000\r\n\r\n", closes: false),
            FaultVariant("trailer", chunked: "5\r\nhello\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n", closes: false),
            // libcurl 7.88 limits each trailer line to 4 KiB.
            FaultVariant(
                "large trailer",
                chunked: "5\r\nhello\r\n0\r\nX-A: \(String(repeating: "a", count: 3_000))\r\n\r\n", closes: false),
        ])
        func chunkExtensionsAndTrailersLeaveTheBodyAsItIs(variant: FaultVariant) async throws {
            let (first, connections) = try await Fault.next(after: variant.reply)
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
            FaultVariant("text", fields: ["Content-Length: 5"], body: "hello, and more", closes: false),
            FaultVariant("an answer", fields: ["Content-Length: 5"], body: "hello" + evil, closes: false),
            FaultVariant("a byte", fields: ["Content-Length: 5"], body: "hello!", closes: false),
            FaultVariant("line end", fields: ["Content-Length: 5"], body: "hello\r\n", closes: false),
            FaultVariant("an answer after the last chunk", chunked: "5\r\nhello\r\n0\r\n\r\n" + evil, closes: false),
        ])
        func bytesAfterTheBodyAreNotDelivered(variant: FaultVariant) async throws {
            let (first, connections) = try await Fault.next(after: variant.reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
            #expect(connections == [1, 2, 2] || variant.testDescription == "an answer after the last chunk")
        }

        @Test(arguments: [
            FaultVariant("shorter first", fields: ["Content-Length: 5", "Content-Length: 6"], body: "hello!"),
            FaultVariant("longer first", fields: ["Content-Length: 6", "Content-Length: 5"], body: "hello!"),
            FaultVariant("in a list", fields: ["Content-Length: 5, 6"], body: "hello!"),
            FaultVariant("far apart", fields: ["Content-Length: 5", "X-A: b", "content-length: 0"], body: "hello"),
        ])
        func lengthsThatDifferAreABadResponse(variant: FaultVariant) async throws {
            let error = try await Fault.error(of: variant.reply) { $0 }
            #expect(error.code == .badResponse, "\(error)")
            let same = FaultVariant("", fields: ["Content-Length: 5", "Content-Length: 5"], body: "hello").reply
            #expect(try await Fault.response(to: same).value == Data("hello".utf8))
        }

        @Test(arguments: ["-5", "0x3", "18446744073709551617", "9223372036854775808", "5x", "five", ""])
        func anInvalidLengthIsABadResponse(length: String) async throws {
            for closes in [true, false] {
                let reply = FaultVariant("", fields: ["Content-Length: \(length)"], body: "hello", closes: closes).reply
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
            let reply = FaultVariant("", fields: ["Content-Length: \(length)"], body: "hello").reply
            let error = try await Fault.error(of: reply) { $0.ignoringBody() }
            #expect(error.code == .connectionLost, "\(error)")
            #expect(error.isRetryable)
            #expect(error.response?.expectedBytes == Int64(length))
            let stream = try await Fault.error(of: reply) { $0.written { OutputStream(toMemory: ()) } }
            #expect(stream.code == .connectionLost, "\(stream)")
            let gate = Gate()
            let head = Data("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n".utf8)
            // The server sends no byte of the body before the client has given up.
            let memory = try await Fault.error(of: Reply(steps: [.write(head), .wait(gate)])) { $0 }
            #expect(memory.code == .bodyTooLarge, "\(memory)")
            #expect(!memory.isRetryable)
            #expect(gate.arrivals == 1)
            let directory = try TemporaryDirectory()
            let file = try await Fault.error(of: reply) { $0.saved(to: directory.file("target")) }
            #expect([.connectionLost, .diskFull].contains(file.code), "\(file)")
            #expect(!FileManager.default.fileExists(atPath: directory.file("target").path))
        }

        @Test(arguments: [
            ["Content-Length: 3", "Transfer-Encoding: chunked"], ["Content-Length: 300", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: chunked", "Content-Length: 3"], ["Transfer-Encoding: chunked", "Content-Length: 300"],
            ["Transfer-Encoding: Chunked", "Content-Length: 0"],
        ])
        func chunkedWinsOverALength(fields: [String]) async throws {
            let variant = FaultVariant("", fields: fields, body: "5\r\nhello\r\n0\r\n\r\n", closes: false)
            let (first, _) = try await Fault.next(after: variant.reply)
            #expect(first.value == Data("hello".utf8))
            #expect(first.transfer.download.completedBytes == 5)
        }
    }

    /// Tests transfer codings other than a single, final `chunked` in HTTP/1.1 (RFC 9112, section 6).
    @Suite(.timeLimit(.minutes(5))) struct TransferCodingFaultTests {
        private static let chunks = "5\r\nhello\r\n0\r\n\r\n"

        /// A 200 with these Transfer-Encoding fields and a chunked body.
        private static func reply(
            _ codings: [String], _ other: String = "", body: String = chunks, version: String = "1.1"
        ) -> Reply {
            let fields = codings.map { "Transfer-Encoding: \($0)\r\n" }.joined()
            return .raw("HTTP/\(version) 200 OK\r\n\(fields)\(other)\r\n\(body)")
        }

        static let refused = [
            FaultVariant("xchunked", reply(["xchunked"])),
            FaultVariant("gzip", reply(["gzip"])),
            FaultVariant("gzip, chunked", reply(["gzip, chunked"])),
            FaultVariant("gzip and chunked in two fields", reply(["gzip", "chunked"])),
            FaultVariant("chunked, gzip", reply(["chunked, gzip"])),
            FaultVariant("chunked twice", reply(["chunked, chunked"])),
            FaultVariant("two fields", reply(["chunked", "chunked"])),
            FaultVariant("unknown, with a length", reply(["foo"], "Content-Length: 5\r\n", body: "hello")),
            FaultVariant("identity", reply(["identity"], body: "hello")),
            FaultVariant("identity, with a length", reply(["identity"], "Content-Length: 5\r\n", body: "hello")),
            FaultVariant("parameter", reply(["chunked;a=b"])),
            FaultVariant("quoted", reply(["\"chunked\""])),
            FaultVariant("no coding", reply([""], body: "hello")),
            FaultVariant("HTTP/1.0", reply(["chunked"], version: "1.0")),
            FaultVariant("no-break space", reply(["\u{A0}chunked"])),
            FaultVariant("ideographic space", reply(["chunked\u{3000}"])),
            FaultVariant("zero width space", reply(["\u{200B}chunked"])),
            FaultVariant("vertical tab", reply(["chunked\u{B}"])),
            FaultVariant("Kelvin sign", reply(["chun\u{212A}ed"])),
            FaultVariant("full width", reply(["\u{FF43}hunked"])),
        ]

        @Test(arguments: refused)
        func codingThatNobodyAskedForIsABadResponse(variant: FaultVariant) async throws {
            try await Fault.expect(.badResponse, of: variant.reply, status: nil)
            let directory = try TemporaryDirectory()
            let error = try await Fault.error(of: variant.reply) { $0.saved(to: directory.file("target")) }
            #expect(error.code == .badResponse, "\(error)")
            #expect(try directory.entries == [])
        }

        /// URLSession passes the field on unchanged, so Convoy can reject the response.
        @Test(arguments: [
            FaultVariant("xchunked", reply(["xchunked"])), FaultVariant("gzip, chunked", reply(["gzip, chunked"])),
            FaultVariant("chunked twice", reply(["chunked", "chunked"])),
        ])
        func urlSessionRefusesItToo(variant: FaultVariant) async throws {
            let server = try TestServer(always: variant.reply)
            defer { server.shutDown() }
            let error = try await Sending(server.get(), over: URLSessionTransport.shared).error()
            #expect(error.code == .badResponse, "\(error)")
        }

        @Test(arguments: [
            FaultVariant("chunked", reply(["chunked"])), FaultVariant("Chunked", reply(["Chunked"])),
            // Empty members of a list are ignored (RFC 9110, section 5.6.1.2).
            FaultVariant("empty members", reply([", chunked ,"])),
            FaultVariant("with a length", reply(["chunked"], "Content-Length: 3\r\n")),
        ])
        func chunkedOnceIsRead(variant: FaultVariant) async throws {
            let response = try await Fault.response(to: variant.reply)
            #expect(response.value == Data("hello".utf8))
        }

        /// libcurl 8.18 and newer joins the lines.
        ///
        /// Older versions use the first one to find the end of the body.
        @Test(arguments: ["\r\n chunked", "\r\n\tchunked", ",\r\n chunked", "chunked\r\n ", "\r\n \r\n chunked"])
        func foldedCodingIsReadWholeOrRefused(value: String) async throws {
            for (body, isWhole) in [(Self.chunks, true), ("500\r\nhel", false)] {
                let directory = try TemporaryDirectory()
                let server = try TestServer(always: Self.reply([value], body: body))
                defer { server.shutDown() }
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
        private typealias Fixtures = CodingFixtures

        private static func reply(_ coding: String, _ body: Data) -> Reply {
            .status(200, headerFields: [("Content-Encoding", coding)], body: body)
        }

        // MARK: Bodies that expand without end

        /// An endless gzip body: each kilobyte expands to a mebibyte of zeros.
        private static let bomb = Reply(steps: [
            .write(Data("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".utf8)), .write(Fixtures.bombHead),
            .writeRepeatedly(Fixtures.bombPiece, count: 1 << 30),
        ])

        @Test(arguments: [1, 1_000, 1_000_000, 10_000_000])
        func bombIsCutAtTheLimit(limit: Int64) async throws {
            let server = try TestServer(always: Self.bomb)
            defer { server.shutDown() }
            let sending = Sending(server.get().maxBodyBytes(limit))
            let error = try await sending.error()
            #expect(error.code == .bodyTooLarge, "\(error)")
            #expect(!error.isRetryable)
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

        // MARK: Valid and damaged codings

        @Test(arguments: [
            ("gzip", Fixtures.gzip), ("x-gzip", Fixtures.gzip), ("GZIP", Fixtures.gzip), ("deflate", Fixtures.deflate),
            ("deflate", Fixtures.rawDeflate), ("br", Fixtures.brotli), ("zstd", Fixtures.zstd),
            ("identity", Fixtures.text), ("gzip, gzip", Fixtures.gzipTwice),
            ("gzip,gzip,gzip, gzip , gzip", Fixtures.gzip5),
            ("gzip", Fixtures.gzip + Fixtures.gzip),
        ])
        func codedBodyIsDecoded(coding: String, body: Data) async throws {
            let isTwice = body.count == 2 * Fixtures.gzip.count
            let text = isTwice ? Fixtures.text + Fixtures.text : Fixtures.text
            // The server sends the body with its length, in chunks of one byte, and delimited by the end of the
            // connection.
            let bytes = body.map { Data([$0]) }
            let fields = [("Content-Encoding", coding)]
            let raw = Data("HTTP/1.1 200 OK\r\nContent-Encoding: \(coding)\r\n\r\n".utf8) + body
            for reply in [Self.reply(coding, body), .chunked(bytes, headerFields: fields), .raw(raw)] {
                let response = try await Fault.response(to: reply)
                #expect(response.value == text)
                #expect(response.transfer.download.completedBytes == Int64(text.count))
            }
            // Codings in several fields are undone from the last.
            let separate = coding.split(separator: ",").map {
                ("Content-Encoding", $0.trimmingCharacters(in: .whitespaces))
            }
            let response = try await Fault.response(to: .status(200, headerFields: separate, body: body))
            #expect(response.value == text)
        }

        @Test(arguments: [
            FaultVariant("cut in the data", reply("gzip", Fixtures.gzip.dropLast(20))),
            FaultVariant("cut before the check value", reply("gzip", Fixtures.gzip.dropLast(8))),
            FaultVariant("cut in the header", reply("gzip", Fixtures.gzip.prefix(3))),
            FaultVariant("second member cut", reply("gzip", Fixtures.gzip + Fixtures.gzip.dropLast(4))),
            FaultVariant("br cut", reply("br", Fixtures.brotli.dropLast(4))),
            FaultVariant("bad check value", reply("gzip", Fixtures.changing(Fixtures.gzip, at: -8))),
            FaultVariant("bad check value of deflate", reply("deflate", Fixtures.changing(Fixtures.deflate, at: -1))),
            FaultVariant("junk behind", reply("gzip", Fixtures.gzip + Data("junk".utf8))),
            FaultVariant("not zstd", reply("zstd", Fixtures.text)),
            FaultVariant("unknown beside known", reply("klingon, gzip", Fixtures.gzip)),
            FaultVariant("six codings", reply("gzip, gzip, gzip, gzip, gzip, gzip", Fixtures.gzip)),
        ])
        func damagedCodingIsABadResponse(variant: FaultVariant) async throws {
            // If the coding ends before the message, the connection is still usable.
            try await Fault.expect(.badResponse, of: variant.reply, status: 200, closes: false)
        }

        /// A truncated coding leaves no file.
        ///
        /// If the body is also short of its length, the error is the lost connection.
        @Test func codingCutShortLeavesNoFile() async throws {
            let directory = try TemporaryDirectory()
            let (file, cut) = (directory.file("target"), Fixtures.gzip.dropLast(9))
            let error = try await Fault.error(of: Self.reply("gzip", cut), closes: false) {
                $0.decodingFile().saved(to: file)
            }
            #expect(error.code == .badResponse, "\(error)")
            #expect(!FileManager.default.fileExists(atPath: file.path))
            let fields = [("Content-Encoding", "gzip"), ("Content-Length", "44")]
            let reply = Reply.status(200, headerFields: fields, body: cut).disconnectingAtEnd()
            try await Fault.expect(.connectionLost, of: reply, status: 200)
        }
    }

    /// The text "convoy ", three hundred times, in every coding.
    ///
    /// The bytes were made with Python's zlib, zstd 1.5 and libbrotlienc 1.0.
    private enum CodingFixtures {
        static let text = Data(String(repeating: "convoy ", count: 300).utf8)
        static let gzip = data("H4sIAAAAAAACA0vOzyvLr1RIHqVGqVFqlBqlRqlRapTCRwEAiHc6/zQIAAA=")
        static let deflate = data("eNpLzs8ry69USB6lRqlRapQapUapUWqUwkcBAGlnNtY=")
        static let rawDeflate = data("S87PK8uvVEgepUapUWqUGqVGqVFqlMJHAQA=")
        static let brotli = data("GzMI+I2Ubt60Bhl7s1NueWFbJPB8cwE=")
        static let zstd = data("KLUv/QRodQAAOGNvbnZveSABACqQX4yvzxqB")
        static let gzipTwice = data("H4sIAAAAAAACA5Pv5mAAASZm73PntU+vD/GQW+q2MjBrihSEOuTOyNBRbvXfBKgMAAGi1XosAAAA")
        static let gzip5 = data(
            "H4sIAAAAAAACA5Pv5mAAASbmye+fJTAwqj07+X6+qoHBKlvrn3X7VjUeXLW0+uvrb7Frt/+tn/P50a/cSZM0n86NVsrRPS1vqXpn97"
                + "9o991OTk42ZW9Vj+mwtXHfCq7SaUxjYNBUEPrvAzQXALfQbdJgAAAA")
        /// The first ten bytes of every gzip member.
        static let bombHead = data("H4sIAAAAAAACAw==")
        /// A mebibyte of zeros up to a full flush, which can be repeated.
        static let bombPiece =
            Data([0xEC, 0xC1, 0x31, 1, 0, 0, 0, 0xC2, 0xA0, 0xF5, 0x4F, 0x6D, 0x08, 0x5F, 0xA0]) + Data(count: 1_016)
            + Data([0x3E, 3, 0, 0, 0xFF, 0xFF])

        /// The bytes with one of them changed.
        ///
        /// A negative index counts from the end.
        static func changing(_ bytes: Data, at index: Int) -> Data {
            var bytes = bytes
            bytes[index < 0 ? bytes.count + index : index] ^= 0x55
            return bytes
        }

        private static func data(_ base64: String) -> Data { Data(base64Encoded: base64) ?? Data() }
    }
#endif
