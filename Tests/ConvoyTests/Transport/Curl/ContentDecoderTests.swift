#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite struct ContentDecoderTests {
        @Test(arguments: [
            (["compress"], "compress"), (["gzip", "x"], "x"), (["*"], "*"), (["gzip;q=1"], "gzip;q=1"),
            (["\u{1B}[31mé\r\n"], "[31m?"), ([String(repeating: "a", count: 999)], String(repeating: "a", count: 40)),
        ])
        func unknownCodingsAreNamedInPrintableCharacters(codings: [String], name: String) {
            let error = #expect(throws: RequestError.self) { try ContentDecoder(codings: codings) }
            #expect(error?.message == "the content coding \"\(name)\" is not supported")
        }

        /// Members follow each other and may be empty: RFC 1952, section 2.2.
        @Test func tooManyEmptyMembersAreAnError() throws {
            let member: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            let few = try decode(Array(repeatElement(member, count: 1_000).joined()), "gzip", .whole)
            #expect(few.error == nil && few.output.isEmpty)
            let many = try decode(Array(repeatElement(member, count: 60_000).joined()), "gzip", .whole)
            #expect(many.error == "the gzip data is corrupt: 1 MiB of it produced no output")
        }

        @Test func acceptedCodingsAreSupportedAndInOrder() throws {
            let names = ContentDecoder.acceptedCodings.split(separator: ", ").map { String($0) }
            #expect(names == ["gzip", "deflate", "br", "zstd"].filter { names.contains($0) })
            for name in names { #expect(try ContentDecoder(codings: [name]) != nil) }
        }

        @Test(arguments: EncodedBody.all, Feeding.allCases)
        func everyCodingIsUndoneHoweverItIsFed(body: EncodedBody, feeding: Feeding) throws {
            let result = try decode(body.bytes, body.coding, feeding)
            #expect(result.error == nil)
            let isSame = result.output == body.decoded
            #expect(isSame, "\(result.output.count) bytes")
        }

        @Test(arguments: EncodedBody.all.filter { $0.decoded == EncodedBody.text })
        func aCutAtAnyPlaceIsAnError(body: EncodedBody) throws {
            for count in 1..<body.bytes.count {
                for feeding in [Feeding.whole, .bytewise] {
                    let result = try decode(Array(body.bytes.prefix(count)), body.coding, feeding)
                    guard result.error?.hasSuffix(" data was cut short") == true else {
                        Issue.record("cut after \(count) bytes, \(feeding): \(String(describing: result.error))")
                        continue
                    }
                    #expect(body.decoded.starts(with: result.output))
                }
            }
            #expect(try decode([], body.coding).error == nil)
        }

        /// These codings have a check value at their end, and every byte of it matters.
        @Test(arguments: [("gzip", 8), ("deflate (zlib)", 4), ("zstd", 4), ("gzip, gzip", 8)])
        func aWrongCheckValueOrLengthIsCorrupt(name: String, trailerCount: Int) throws {
            for body in EncodedBody.all where body.name == name {
                for offset in 1...trailerCount {
                    var bytes = body.bytes
                    bytes[bytes.count - offset] ^= 0x10
                    let result = try decode(bytes, body.coding)
                    guard let error = result.error, error.contains(" data is corrupt: ") else {
                        Issue.record("\(name), \(offset): \(String(describing: result.error))")
                        continue
                    }
                    #expect(!error.hasSuffix("no reason given"))
                    // zstd drops the bytes that a failed call has decoded.
                    let isAllOut = name == "zstd" || result.output == body.decoded
                    #expect(isAllOut && body.decoded.starts(with: result.output))
                }
            }
        }

        @Test(arguments: EncodedBody.all, Feeding.allCases)
        func bytesAfterTheEndAreAnErrorAfterTheOutput(body: EncodedBody, feeding: Feeding) throws {
            let result = try decode(body.bytes + [0x0A], body.coding, feeding)
            let outermost = body.coding.split(separator: ", ").last.map { String($0) } ?? ""
            #expect(result.error == "bytes follow the end of the \(outermost) data")
            let isSame = result.output == body.decoded
            #expect(isSame, "\(result.output.count) bytes")
        }

        @Test func anErrorIsThrownAgain() throws {
            let decoder = try #require(try ContentDecoder(codings: ["gzip"]))
            func isCorrupt(_ error: any Error) -> Bool {
                (error as? RequestError)?.message.hasSuffix("the gzip data is corrupt: incorrect header check") == true
            }
            for input in [[0x50, 0x4B], [], EncodedBody.gzip(EncodedBody.text)] as [[UInt8]] {
                #expect {
                    try input.withUnsafeBytes { try decoder.decode($0) { _ in true } }
                } throws: {
                    isCorrupt($0)
                }
                #expect(decoder.hasPendingOutput)
            }
            #expect { try decoder.finish() } throws: { isCorrupt($0) }
        }

        @Test(arguments: Feeding.allCases)
        func gzipMembersMayFollowOneAnotherAndZeros(feeding: Feeding) throws {
            let member = EncodedBody.gzip(EncodedBody.text)
            let text = EncodedBody.text
            #expect(try decode(member + EncodedBody.gzip([]) + member, "gzip", feeding) == (text + text, nil))
            #expect(try decode(member + [0, 0, 0, 0], "gzip", feeding) == (text, nil))
            let trailing = "bytes follow the end of the gzip data"
            #expect(try decode(member + [0, 0] + member, "gzip", feeding) == (text, trailing))
            let cutShort = "the gzip data was cut short"
            #expect(try decode(member + member.dropLast(), "gzip", feeding) == (text + text, cutShort))
            #expect(try decode(member + [0x1F], "gzip", feeding) == (text, cutShort))
        }

        @Test func anInnerCodingThatIsCutShortIsFound() throws {
            let cut = EncodedBody.gzip(EncodedBody.gzip(EncodedBody.text).dropLast())
            #expect(try decode(cut, "gzip, gzip").error == "the gzip data was cut short")
            #expect(try decode(EncodedBody.gzip([]), "gzip, gzip").error == "the gzip data was cut short")
        }

        @Test func theFormOfDeflateFollowsFromItsFirstBytes() throws {
            #expect(try decode([0x03, 0x00], "deflate") == ([], nil))
            #expect(try decode([0x01, 0x01, 0x00, 0xFE, 0xFF, 0x61], "deflate") == ([0x61], nil))
            let dictionary = "the deflate data is corrupt: a dictionary is needed"
            #expect(try decode([0x78, 0x20, 0, 0, 0, 1, 0x03, 0x00], "deflate") == ([], dictionary))
        }

        @Test(.enabled(if: ContentDecoder.acceptedCodings.contains("zstd")), arguments: Feeding.allCases)
        func zstdFramesOfTheStandardAreDecoded(feeding: Feeding) throws {
            let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]
            let frame = magic + [0x20, 0x01, 0x09, 0x00, 0x00, 0x61]
            let skippable: [UInt8] = [0x5A, 0x2A, 0x4D, 0x18, 0x03, 0x00, 0x00, 0x00, 1, 2, 3]
            let bytes = skippable + frame + skippable + frame
            #expect(try decode(bytes, "zstd", feeding) == ([0x61, 0x61], nil))
            // The first frame is empty and has a window of 8 MiB, the second one of 16 MiB.
            #expect(try decode(magic + [0x00, 0x68, 0x01, 0x00, 0x00], "zstd", feeding) == ([], nil))
            let memory = "the zstd data needs more memory than is available or allowed"
            #expect(try decode(magic + [0x00, 0x70, 0x01, 0x00, 0x00], "zstd", feeding) == ([], memory))
            // The frame has the format of version 0.7, which the library would decode.
            let result = try decode([0x27] + frame.dropFirst(), "zstd", feeding)
            #expect(result.error == "the zstd data is corrupt: not a frame")
        }

        @Test(arguments: EncodedBody.bombs)
        func aBombIsNotExpandedIntoMemory(bomb: EncodedBody) throws {
            let decoder = try #require(try ContentDecoder(codings: codings(bomb.coding)))
            var emitted = 0
            var longest = 0
            func feed(_ bytes: ArraySlice<UInt8>, upTo limit: Int) throws -> Int {
                try bytes.withUnsafeBytes { bytes in
                    try decoder.decode(bytes) { chunk in
                        emitted += chunk.count
                        longest = max(longest, chunk.count)
                        return emitted < limit
                    }
                }
            }
            let used = try feed(bomb.bytes[...], upTo: 1_000_000)
            #expect(emitted >= 1_000_000 && emitted < 1_000_000 + longest)
            #expect(used < bomb.bytes.count || decoder.hasPendingOutput)
            let rest = bomb.bytes.dropFirst(used)
            #expect(try feed(rest, upTo: .max) == rest.count)
            try decoder.finish()
            #expect(emitted == (bomb.coding == "deflate, gzip" ? 96 << 20 : 100_000_000))
            #expect(longest <= 65_536)
        }
    }

    enum Feeding: CaseIterable {
        case whole
        case bytewise
        /// The client stops after each chunk of output. Further input follows as soon as it is permitted.
        case stopping
        /// As ``stopping``, but each call gets one byte. While output is pending, calls get no input.
        case draining
    }

    /// Decodes a body with a new decoder; returns the output, and what the error says of the data.
    private func decode(
        _ bytes: [UInt8], _ coding: String, _ feeding: Feeding = .whole
    ) throws -> (output: [UInt8], error: String?) {
        let decoder = try #require(try ContentDecoder(codings: codings(coding)))
        let prefix = "the body does not match its Content-Encoding: "
        let isBytewise = feeding == .bytewise || feeding == .draining
        let isStopping = feeding == .stopping || feeding == .draining
        var output: [UInt8] = []
        var rest = bytes[...]
        do {
            while !rest.isEmpty || decoder.hasPendingOutput {
                let input = feeding == .draining && decoder.hasPendingOutput ? [] : rest.prefix(isBytewise ? 1 : .max)
                var pieceCount = 0
                let used = try input.withUnsafeBytes { bytes in
                    try decoder.decode(bytes) { chunk in
                        pieceCount += 1
                        output.append(contentsOf: chunk)
                        return !isStopping
                    }
                }
                if isStopping ? pieceCount > 1 : used < input.count || decoder.hasPendingOutput {
                    Issue.record("not stopped, or stopped without being asked")
                }
                rest = rest.dropFirst(used)
            }
            try decoder.finish()
        } catch let error as RequestError {
            #expect(error.code == .badResponse && error.message.hasPrefix(prefix))
            return (output, String(error.message.dropFirst(prefix.count)))
        }
        return (output, nil)
    }

    private func codings(_ list: String) -> [String] { list.components(separatedBy: ", ") }

    /// The lists contain only codings that this machine can decode.
    struct EncodedBody: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: [UInt8]
        let decoded: [UInt8]

        /// The value of the `Content-Encoding` field: the name without the text in parentheses.
        var coding: String { String(name.prefix { $0 != "(" }).trimmingCharacters(in: .whitespaces) }
        var testDescription: String { "\(name), \(bytes.count) bytes" }

        init(_ name: String, _ bytes: [UInt8], _ decoded: [UInt8] = []) {
            self.name = name
            self.bytes = bytes
            self.decoded = decoded
        }

        static let text = Array(
            "The quick brown fox jumps over the lazy dog, and the lazy dog does not mind the quick brown fox.\n".utf8)
        /// The text needs more than three output buffers.
        static let lines = Array(String(repeating: "convoy\n", count: 30_000).utf8)

        static let all = [
            Self("gzip", gzip(text), text),
            Self("gzip", gzip(lines), lines),
            Self("x-gzip", gzip(text), text),
            Self("deflate (raw)", deflated(text), text),
            Self("deflate (raw)", deflated(lines), lines),
            Self("deflate (zlib)", zlib(text), text),
            Self("deflate (zlib)", zlib(lines), lines),
            Self("br", textBrotli, text),
            Self("br", linesBrotli, lines),
            Self("zstd", textZstandard, text),
            Self("zstd", linesZstandard, lines),
            Self("gzip, br", textGzipBrotli, text),
            Self("gzip, gzip", gzip(gzip(lines)), lines),
            Self("gzip, x-gzip, deflate, gzip, gzip", gzip(gzip(zlib(gzip(gzip(text))))), text),
        ].filter(\.isSupported)

        /// A mebibyte of zeros as deflate data up to a full flush, which can be repeated.
        static let mebibyteOfZeros: [UInt8] =
            [0xEC, 0xC1, 0x31, 1, 0, 0, 0, 0xC2, 0xA0, 0xF5, 0x4F, 0x6D, 0x08, 0x5F, 0xA0]
            + [UInt8](repeating: 0, count: 1_016) + [0x3E, 3, 0, 0, 0xFF, 0xFF]

        /// Bodies that expand to 96 MiB or a hundred million zero bytes.
        static let bombs = [
            Self("deflate, gzip", gzip(repeatElement(mebibyteOfZeros, count: 96).joined() + [3, 0])),
            Self("br", brotliBomb), Self("zstd, gzip", zstandardBomb),
        ].filter(\.isSupported)

        private var isSupported: Bool {
            ["br", "zstd"].allSatisfy { !coding.contains($0) || ContentDecoder.acceptedCodings.contains($0) }
        }

        static func gzip(_ data: [UInt8]) -> [UInt8] { (try? Gzip.compress(Data(data))).map { [UInt8]($0) } ?? [] }

        /// The deflate data (RFC 1951) of a gzip member without its header and trailer (RFC 1952).
        private static func deflated(_ data: [UInt8]) -> [UInt8] { Array(gzip(data).dropFirst(10).dropLast(8)) }

        /// The zlib format (RFC 1950) around deflate data.
        static func zlib(_ data: [UInt8]) -> [UInt8] {
            var sums: (UInt32, UInt32) = (1, 0)
            for byte in data {
                sums.0 = (sums.0 + UInt32(byte)) % 65_521
                sums.1 = (sums.1 + sums.0) % 65_521
            }
            let trailer = [sums.1 >> 8, sums.1, sums.0 >> 8, sums.0].map { UInt8($0 & 255) }
            return [0x78, 0x9C] + deflated(data) + trailer
        }

        // The data were made by Python's zlib, the brotli library (quality 11) and `zstd -19 --check`.
        private static let textBrotli = bytes(
            """
            G2AAGCwO7JgyeGHDdOprBaoyNGlGxtYgZ3h6KuytQVzm8kIzDtj7uzTMNxsADZxwwglGwcQjCM5fj4SZxsCO8eyrXZZA+kwY9zoL
            """)
        private static let linesBrotli = bytes("W080g99I6eZNa4WxNzvllhe3RQIHWAbMBQ==")
        private static let textZstandard = bytes(
            """
            KLUv/QRoNQIA4gMOEZB9UPpD6Q+lz9fdRXXn25oBQDD4V8a3SJ4/kXxQ8jzv5D1a9yvK8u2EuP2W6aOWtbwzDNNHawQDAE9w4NNKUMeEAu
            ZUkL8=
            """)
        private static let linesZstandard = bytes("KLUv/QRofAAAOGNvbnZveQoBAPb/yosRRQAAAAEATTTKCxCcpbdI")
        private static let textGzipBrotli = bytes(
            """
            CyqAH4sIAAAAAAACAwvJSFUoLM1MzlZIKsovz1NIy69QyCrNLShWyC9LLVIoAUrnJFZVKqTkp+soJOaloIgAcWqxQl5+iUJuJlQKzSw9Lg
            DuAtU6YQAAAAM=
            """)
        private static let brotliBomb = bytes(
            """
            y///PwAkAOKxQHLv//j//weABEAcFoDu/R////8AkACIwwLQvf/j//8fABIAcVgAuvd//P//A0ACIA4LQPf+j///fwBIAMRhAeje//H//w
            8ACYA4LADd+z/+//8BIAEQhwWge//H//8/ACQA4rAAdO//+P//B4AEQBwWgO79H////wCQAIjDAtC9/8t/8DoAEgBxWAC62HU=
            """)
        private static let zstandardBomb = bytes(
            """
            H4sIAAAAAAACA9PYqv+XJcOHgYGDgZHhz39LASYmBgGGUTyKR/HIwy4MDMBi4O//M9wCo8ExikfxaDEwGhyjeBQPa8zMwc/A4KduCQBHRE
            0JDAwAAA==
            """)

        private static func bytes(_ base64: String) -> [UInt8] {
            [UInt8](Data(base64Encoded: base64, options: .ignoreUnknownCharacters) ?? Data())
        }
    }
#endif
