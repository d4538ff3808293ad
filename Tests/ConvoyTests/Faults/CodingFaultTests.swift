// Tests content codings: endless bodies, and damaged or repeated codings.
#if canImport(CLibcurl)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

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
        }

        @Test func codingsInFieldsOfTheirOwnAreUndoneFromTheLast() async throws {
            let fields = [("Content-Encoding", "gzip"), ("X-A", "b"), ("Content-Encoding", "gzip")]
            let response = try await Fault.response(
                to: .status(200, headerFields: fields, body: Fixtures.gzipTwice))
            #expect(response.value == Fixtures.text)
        }

        @Test(arguments: [
            FaultVariant("cut behind the header", reply("gzip", Fixtures.gzip.prefix(10))),
            FaultVariant("cut in the data", reply("gzip", Fixtures.gzip.dropLast(20))),
            FaultVariant("cut before the check value", reply("gzip", Fixtures.gzip.dropLast(8))),
            FaultVariant("cut by a byte", reply("gzip", Fixtures.gzip.dropLast(1))),
            FaultVariant("cut in the header", reply("gzip", Fixtures.gzip.prefix(3))),
            FaultVariant("second member cut", reply("gzip", Fixtures.gzip + Fixtures.gzip.dropLast(4))),
            FaultVariant("deflate cut", reply("deflate", Fixtures.deflate.dropLast(4))),
            FaultVariant("br cut", reply("br", Fixtures.brotli.dropLast(4))),
            FaultVariant("zstd cut", reply("zstd", Fixtures.zstd.dropLast(4))),
            FaultVariant("bad check value", reply("gzip", Fixtures.changing(Fixtures.gzip, at: -8))),
            FaultVariant("bad length", reply("gzip", Fixtures.changing(Fixtures.gzip, at: -1))),
            FaultVariant("bad check value of deflate", reply("deflate", Fixtures.changing(Fixtures.deflate, at: -1))),
            FaultVariant("junk behind", reply("gzip", Fixtures.gzip + Data("junk".utf8))),
            FaultVariant("junk behind deflate", reply("deflate", Fixtures.deflate + Data("junk".utf8))),
            FaultVariant("not gzip", reply("gzip", Fixtures.text)),
            FaultVariant("not br", reply("br", Data(repeating: 0xFF, count: 100))),
            FaultVariant("not zstd", reply("zstd", Fixtures.text)),
            FaultVariant("unknown", reply("klingon", Fixtures.text)),
            FaultVariant("unknown beside known", reply("klingon, gzip", Fixtures.gzip)),
            FaultVariant("six codings", reply("gzip, gzip, gzip, gzip, gzip, gzip", Fixtures.gzip6)),
        ])
        func damagedCodingIsABadResponse(variant: FaultVariant) async throws {
            // If the coding ends before the message, the connection is still usable.
            try await Fault.expect(.badResponse, of: variant.reply, status: 200, closes: false)
        }

        /// A truncated coding leaves no file.
        @Test func codingCutShortLeavesNoFile() async throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("target")
            let error = try await Fault.error(of: Self.reply("gzip", Fixtures.gzip.dropLast(9)), closes: false) {
                $0.decodingFile().saved(to: file)
            }
            #expect(error.code == .badResponse, "\(error)")
            #expect(!FileManager.default.fileExists(atPath: file.path))
        }

        /// The error is the lost connection, not the truncated gzip data.
        @Test func codedBodyShortOfItsLengthIsConnectionLost() async throws {
            let fields = [("Content-Encoding", "gzip"), ("Content-Length", "44")]
            let reply = Reply.status(200, headerFields: fields, body: Fixtures.gzip.dropLast(9)).disconnectingAtEnd()
            try await Fault.expect(.connectionLost, of: reply, status: 200)
        }

        /// A response without a body cannot be truncated.
        @Test(arguments: [(HTTPMethod.head, 200), (.get, 204), (.get, 304)])
        func answerWithoutABodyHasNoCodingToUndo(method: HTTPMethod, status: Int) async throws {
            let fields = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
            let (first, connections) = try await Fault.next(
                after: .status(status, headerFields: fields, body: Fixtures.gzip), method: method)
            #expect(first.statusCode == status)
            #expect(first.value.isEmpty)
            #expect(connections == [1, 1, 1])
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
        static let gzip6 = data(
            "H4sIAAAAAAACAwF1AIr/H4sIAAAAAAACA5Pv5mAAASbmye+fJTAwqj07+X6+qoHBKlvrn3X7VjUeXLW0+uvrb7Frt/+tn/P50a/cSZ"
                + "M0n86NVsrRPS1vqXpn979o991OTk42ZW9Vj+mwtXHfCq7SaUxjYNBUEPrvAzQXALfQbdJgAAAAFKOjT3UAAAA=")
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
