import Foundation
import Testing

@testable import Convoy

@Suite struct ResponseDecodingTests {
    private func send<Output: Decodable>(
        _: Output.Type, _ body: [UInt8], _ contentType: String? = nil
    ) async throws -> RequestOperation<Output>.Result {
        let server = StubServer { exchange in
            exchange.answer(200, headerFields: contentType.map { ["content-type": $0] } ?? [:], body: Data(body))
        }
        return try await Sending(Request<Output>.get("http://stub/"), over: server.transport).result()
    }

    // MARK: Data

    @Test(arguments: [[], [0], [0xEF, 0xBB, 0xBF, 0x61], [0xFF, 0xFE]] as [[UInt8]])
    func dataIsTheRawBody(body: [UInt8]) async throws {
        #expect(try await send(Data.self, body, "text/plain; charset=utf-16").get().value == Data(body))
    }

    // MARK: String

    @Test(
        arguments: [
            ([], nil, ""),
            (Array("hü".utf8), nil, "hü"),
            (Array("hü".utf8), "text/plain", "hü"),
            (Array("hü".utf8), "text/plain; charset=utf-8", "hü"),
            (Array("hü".utf8), "text/plain;CHARSET=UTF-8", "hü"),
            (Array("hü".utf8), "text/plain; a=b; charset=\"utf-8\"", "hü"),
            (Array("hü".utf8), "text/plain; charset = utf-8 ", "hü"),
            ([0xEF, 0xBB, 0xBF, 0x68], nil, "h"),
            ([0xEF, 0xBB, 0xBF, 0x68, 0xC3, 0xBC], "text/plain; charset=iso-8859-1", "hü"),
            ([0x68, 0xFC], "text/plain; charset=iso-8859-1", "hü"),
            ([0x68, 0xFC], "text/plain; charset=latin1", "hü"),
            ([0x80], "text/plain; charset=windows-1252", "€"),
            ([0xCF, 0xF0], "text/plain; charset=windows-1251", "Пр"),
            ([0x68], "text/plain; charset=us-ascii", "h"),
            ([0xFF, 0xFE, 0x68, 0, 0xFC, 0], nil, "hü"),
            ([0xFE, 0xFF, 0, 0x68, 0, 0xFC], nil, "hü"),
            ([0xFE, 0xFF, 0, 0x68], "text/plain; charset=utf-16", "h"),
            ([0xFF, 0xFE, 0x68, 0], "text/plain; charset=utf-16le", "h"),
            ([0x68, 0, 0xFC, 0], "text/plain; charset=utf-16le", "hü"),
            ([0, 0x68, 0, 0xFC], "text/plain; charset=UTF-16BE", "hü"),
            ([0x83, 0x65], "text/plain; charset=Shift_JIS", "テ"),
            ([0xFF, 0xFE, 0, 0, 0x68, 0, 0, 0], "text/plain; charset=utf-32", "h"),
            ([0x22, 0x68, 0x22], "application/json", "\"h\""),
            // A charset inside a quoted value is part of that value.
            (Array("hü".utf8), #"text/plain; x="charset=latin1""#, "hü"),
            (Array("hü".utf8), #"text/plain; x="a; charset=latin1; b""#, "hü"),
            (Array("hü".utf8), #"text/plain; x="\"; charset=latin1""#, "hü"),
            ([0x68, 0xFC], #"text/plain; x="charset=utf-8"; charset="latin1""#, "hü"),
            ([0x68, 0xFC], #"text/plain; charset="la\tin1""#, "hü"),
            ([0x68, 0xFC], "text/plain; charset=latin1; charset=utf-8", "hü"),
            // An unknown charset.
            (Array("h".utf8), "text/plain; charset=klingon", "h"),
            (Array("hü".utf8), "text/plain; charset=binary", "hü"),
            (Array("hü".utf8), "text/plain; charset='utf-8'", "hü"),
        ] as [([UInt8], String?, String)])
    func textIsDecodedByItsMarkThenItsCharsetThenUTF8(body: [UInt8], contentType: String?, text: String) async throws {
        #expect(try await send(String.self, body, contentType).get().value == text)
    }

    /// Charsets of the registry of IANA, and the bytes of one text in each.
    @Test(
        arguments: [
            ("GBK", [0xC4, 0xE3, 0xBA, 0xC3], "你好"), ("gb2312", [0xC4, 0xE3, 0xBA, 0xC3], "你好"),
            // Servers name the older charset for text of its superset.
            ("GB2312", [0xE9, 0x46], "镕"), ("EUC-KR", [0x8C, 0x63], "똠"),
            ("gb18030", [0xC4, 0xE3, 0x94, 0x39, 0xFC, 0x36], "你😀"), ("x-gbk", [0xC4, 0xE3], "你"),
            ("cp936", [0xC4, 0xE3], "你"), ("Big5", [0xA7, 0x41, 0xA6, 0x6E], "你好"), ("Big5-HKSCS", [0xA7, 0x41], "你"),
            ("EUC-KR", [0xB0, 0xA1], "가"), ("ks_c_5601-1987", [0xB0, 0xA1], "가"),
            ("Shift_JIS", [0x93, 0xFA], "日"), ("x-sjis", [0x93, 0xFA], "日"), ("Windows-31J", [0x93, 0xFA], "日"),
            ("ISO-2022-JP", [0x1B, 0x24, 0x42, 0x46, 0x7C, 0x1B, 0x28, 0x42], "日"),
            ("windows-1255", [0xF9, 0xEC], "של"), ("windows-1256", [0xC8], "ب"), ("windows-1257", [0xE0], "ą"),
            ("windows-1258", [0xD0], "Đ"), ("windows-874", [0xA1], "ก"), ("TIS-620", [0xA1], "ก"),
            ("cp1252", [0x80], "€"),
            ("KOI8-R", [0xCF], "о"), ("koi8-u", [0xA4], "є"), ("IBM866", [0x8F], "П"), ("macintosh", [0x8E], "é"),
            ("ISO-8859-5", [0xBF], "П"), ("ISO-8859-7", [0xE1], "α"), ("iso-8859-8-i", [0xE0], "א"),
            ("ISO-8859-9", [0xFD], "ı"), ("ISO-8859-15", [0xA4], "€"),
        ] as [(String, [UInt8], String)])
    func charsetsOfFoundationAreDecoded(charset: String, body: [UInt8], text: String) async throws {
        let type = "text/plain; charset=\(charset)"
        #expect(try await send(String.self, body, type).get().value == text)
        #expect(try await send(String.self, Array("plain".utf8), type).get().value == "plain")
    }

    /// On Linux, Foundation knows this charset, but cannot decode it.
    @Test func plainTextIsDecodedInACharsetThatCannotBe() async throws {
        #expect(try await send(String.self, Array("plain".utf8), "text/plain; charset=EUC-JP").get().value == "plain")
    }

    @Test(
        arguments: [
            ([0x68, 0xFC], nil, "not valid UTF-8"),
            ([0x68, 0xFC], "text/plain; charset=utf-8", "not valid utf-8"),
            ([0xC3], nil, "not valid UTF-8"),
            ([0xEF, 0xBB, 0xBF, 0xFF], nil, "not valid UTF-8"),
            ([0x68, 0xFC], "text/plain; charset=us-ascii", "not valid us-ascii"),
            ([0x68, 0xFC], "text/plain; charset=klingon", "\"klingon\" is unknown"),
            ([0xC4, 0xE3, 0xBA], "text/plain; charset=gbk", "not valid gbk"),
            ([0x68], "text/plain; charset=", ""),
        ] as [([UInt8], String?, String)])
    func textThatCannotBeDecodedKeepsTheBody(body: [UInt8], contentType: String?, reason: String) async throws {
        guard contentType?.hasSuffix("=") != true else {
            // A charset without a value counts as no charset.
            return #expect(try await send(String.self, body, contentType).get().value == "h")
        }
        let error = try #require(try await send(String.self, body, contentType).error)
        #expect(error.code == .decodingFailed)
        #expect(error.body == Data(body))
        #expect(error.message.contains(reason))
        #expect(error.response?.statusCode == 200)
        #expect(error.underlying != nil)
        #expect(!error.isRetryable)
        #expect(error.description.isOneLine)
    }

    // MARK: JSON

    private struct User: Codable, Equatable, Sendable {
        var id: Int
        var name: String
    }

    @Test func jsonIsDecodedWhateverTheContentType() async throws {
        let body = Array(#"{"id":1,"name":"ü"}"#.utf8)
        for contentType in [nil, "application/json", "text/plain"] {
            #expect(try await send(User.self, body, contentType).get().value == User(id: 1, name: "ü"))
        }
    }

    @Test func jsonFragmentsAreJSON() async throws {
        #expect(try await send(Int.self, Array("42".utf8)).get().value == 42)
        #expect(try await send(Bool.self, Array(" true ".utf8)).get().value)
        #expect(try await send([String].self, Array("[\"a\"]".utf8)).get().value == ["a"])
        #expect(try await send(Int?.self, Array("null".utf8)).get().value == nil)
    }

    @Test(arguments: [
        "", " ", "{", "{\"id\":1}", "{\"id\":\"1\",\"name\":\"a\"}", "nul", "[]", "{\"id\":1,\"name\":\"a\"} x",
        "\u{0}",
        "{\"id\":1,\"name\":null}", "{\n\"id\"\n:\n\"\n\"\n}",
    ])
    func brokenJSONKeepsTheBody(text: String) async throws {
        let error = try #require(try await send(User.self, Array(text.utf8)).error)
        #expect(error.code == .decodingFailed)
        #expect(error.body == Data(text.utf8))
        #expect(error.response?.statusCode == 200)
        #expect(error.underlying is DecodingError)
        #expect(!error.isRetryable)
        #expect(error.description.isOneLine)
    }

    @Test func keyWithALineEndStaysInOneLine() async throws {
        let error = try #require(try await send([String: Int].self, Array(#"{"a\nb":"x"}"#.utf8)).error)
        #expect(error.code == .decodingFailed)
        #expect(error.description.isOneLine)
    }

    // MARK: Custom decoders

    private struct Refusal: Error {}

    @Test func theErrorOfADecoderIsUnderlying() async throws {
        let server = StubServer { $0.answer(200, body: Data("abc".utf8)) }
        let request = Request<Data>.get("http://stub/").decoding { _, _ -> Int in throw Refusal() }
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .decodingFailed)
        #expect(error.underlying is Refusal)
        #expect(error.body == Data("abc".utf8))
    }

    @Test func requestErrorOfADecoderIsKept() async throws {
        let server = StubServer()
        let request = Request<Data>.get("http://stub/a").decoding { _, _ -> Int in
            throw RequestError(.init(rawValue: "mine"), "not today", isRetryable: true)
        }
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code.rawValue == "mine")
        #expect(error.isRetryable)
        #expect(error.request == "GET http://stub/a")
        #expect(error.response?.statusCode == 200)
    }

    @Test func decodersAndMapsAreChained() async throws {
        let server = StubServer { $0.answer(201, body: Data("41".utf8)) }
        let request = Request<Data>.get("http://stub/")
            .decoding { body, head in (Int(String(decoding: body, as: UTF8.self)) ?? 0, head.statusCode) }
            .map { $0.0 + $0.1 }
        #expect(try await Sending(request, over: server.transport).response().value == 242)
    }

    @Test func decoderSeesACompleteBodyOnly() async throws {
        let calls = EventLog<Data>()
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 10))
            exchange.send(Data("abc".utf8))
            exchange.finish(RequestError(.connectionLost, "cut"))
        }
        let request = Request<Data>.get("http://stub/").decoding { body, _ in calls.record(body) }
        #expect(try await Sending(request, over: server.transport).error().code == .connectionLost)
        #expect(calls.count == 0)
    }

    @Test func ignoredBodyIsReceivedWhateverItsLengthAndDropped() async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 1 << 40))
            for _ in 0..<100 { exchange.send(Data(count: 1_000)) }
            exchange.finish()
        }
        let response = try await Sending(Request.stub("a").ignoringBody(), over: server.transport).response()
        #expect(response.transfer.download.completedBytes == 100_000)
    }
}

extension Result where Failure == RequestError {
    fileprivate var error: RequestError? { if case .failure(let error) = self { error } else { nil } }
}
