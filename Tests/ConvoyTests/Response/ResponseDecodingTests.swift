import Foundation
import Testing

@testable import Convoy

/// Tests the result for each kind of body: a value or an error, never a crash.
@Suite struct ResponseDecodingTests {
    private struct User: Codable, Equatable, Sendable {
        var name: String
    }

    private static let text = #"{"name":"ü😀"}"#

    private func decode<Output: Decodable & Sendable>(
        _: Output.Type, _ body: Data, _ contentType: String? = nil
    ) async throws -> RequestOperation<Output>.Result {
        let server = StubServer { exchange in
            exchange.answer(200, headerFields: contentType.map { ["Content-Type": $0] } ?? [:], body: body)
        }
        return try await Sending(Request<Output>.get("http://stub/"), over: server.transport).result()
    }

    private func message<Output: Decodable & Sendable>(
        _ type: Output.Type, _ body: Data, _ contentType: String? = nil
    ) async throws -> String {
        let error = try #require(try await decode(type, body, contentType).failure as? RequestError)
        #expect(error.code == .decodingFailed)
        #expect(error.body == body)
        #expect(error.underlying is DecodingError)
        #expect(error.response?.statusCode == 200 && !error.isRetryable)
        #expect(error.description.isOneLine)
        return error.message
    }

    /// The encodings of Unicode, without and with a byte order mark.
    private static let encodings: [(String.Encoding, [UInt8])] = [
        (.utf8, []), (.utf8, [0xEF, 0xBB, 0xBF]), (.utf16LittleEndian, []), (.utf16LittleEndian, [0xFF, 0xFE]),
        (.utf16BigEndian, []), (.utf16BigEndian, [0xFE, 0xFF]), (.utf32LittleEndian, []),
        (.utf32LittleEndian, [0xFF, 0xFE, 0, 0]), (.utf32BigEndian, []), (.utf32BigEndian, [0, 0, 0xFE, 0xFF]),
    ]

    private func encode(_ text: String, _ encoding: (String.Encoding, mark: [UInt8])) throws -> Data {
        Data(encoding.mark) + (try #require(text.data(using: encoding.0)))
    }

    /// The encoding of JSON is detected from its bytes, whatever the charset.
    @Test(arguments: encodings, [nil, "text/plain", "application/json; charset=iso-8859-1"])
    func jsonInEveryEncodingOfUnicode(encoding: (String.Encoding, mark: [UInt8]), contentType: String?) async throws {
        let body = try encode(Self.text, encoding)
        #expect(try await decode(User.self, body, contentType).get().value == User(name: "ü😀"))
    }

    @Test(arguments: encodings)
    func fragmentsInEveryEncodingOfUnicode(encoding: (String.Encoding, mark: [UInt8])) async throws {
        #expect(try await decode(Int.self, try encode("4", encoding)).get().value == 4)
        #expect(try await decode(Bool.self, try encode(" true\n", encoding)).get().value)
        #expect(try await decode([String?].self, try encode("[null]", encoding)).get().value == [nil])
    }

    @Test(arguments: encodings)
    func aByteOrderMarkAloneIsNotAValue(encoding: (String.Encoding, mark: [UInt8])) async throws {
        let text = try await message(User.self, Data(encoding.mark))
        #expect(text.contains(encoding.mark.isEmpty ? "the body is empty" : "it is not valid JSON"))
    }

    @Test func bytesThatAreNotUTF8() async throws {
        let body = Data(#"{"name":"h"#.utf8) + [0xFC] + Data(#""}"#.utf8)
        for type in [nil, "application/json; charset=utf-8", "application/json; charset=klingon"] {
            #expect(try await message(User.self, body, type).contains("its bytes are not valid UTF-8"))
        }
        // The charset applies only if the bytes are not valid Unicode.
        let response = try await decode(User.self, body, "application/json; charset=ISO-8859-1").get()
        #expect(response.value == User(name: "hü"))
        for odd in [[0xFF, 0xFE, 0x22, 0, 0], [0, 0, 0xFE, 0xFF, 0, 0, 0, 0x22, 0]] as [[UInt8]] {
            #expect(try await message([Int].self, Data(odd)).contains("its bytes are not valid UTF-"))
            let error = try #require(try await decode(String.self, Data(odd)).failure as? RequestError)
            #expect(error.code == .decodingFailed)
            #expect(error.message.contains("its bytes are not valid UTF-"))
        }
    }

    @Test(arguments: [
        ("{", "it is not valid JSON: "), ("[1,\n  2\n", "it is not valid JSON: "),
        ("{\"ü\":}", "it is not valid JSON: "),
        ("<html>", "it is not valid JSON: "), ("{\"name\":\"a\"} x", "it is not valid JSON: "),
        ("[01]", "it is not valid JSON: "), ("[\"a", "it is not valid JSON: "),
        (String(repeating: "[", count: 100_000), "it is not valid JSON: Too many nested"),
        (String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000), "Too many nested"),
        (String(repeating: "{\"a\":", count: 100_000), "it is not valid JSON: Too many nested"),
        ("[99999999999999999999]", "a value does not fit"),
    ])
    func brokenJSONIsExplained(text: String, problem: String) async throws {
        #expect(try await message([Int].self, Data(text.utf8)).contains(problem))
    }

    private struct Tree: Decodable, Sendable {
        let children: [Tree]

        init(from decoder: any Decoder) throws {
            children = try decoder.singleValueContainer().decode([Tree].self)
        }
    }

    /// The nesting is the deepest that Foundation's decoder accepts, and the type is as deep.
    @Test func nestingAsDeepAsAllowedIsDecoded() async throws {
        let text = String(repeating: "[", count: 512) + String(repeating: "]", count: 512)
        #expect(try await decode(Tree.self, Data(text.utf8)).get().value.children.count == 1)
        #expect(try await message(Tree.self, Data(("[" + text + "]").utf8)).contains("Too many nested"))
    }

    @Test func emptyBody() async throws {
        #expect(try await decode(Data.self, Data()).get().value == Data())
        #expect(try await decode(String.self, Data()).get().value == "")
        #expect(try await decode(User?.self, Data()).get().value == nil)
        #expect(try await decode(Data?.self, Data()).get().value == nil)
        #expect(try await decode(String?.self, Data()).get().value == nil)
        #expect(try await message(User.self, Data()).contains("the body is empty"))
        #expect(try await message([Int].self, Data()).contains("the body is empty"))
    }

    @Test func optionalOutputsAreTheirTypesOtherwise() async throws {
        #expect(try await decode(User?.self, Data(Self.text.utf8)).get().value == User(name: "ü😀"))
        #expect(try await decode(User?.self, Data("null".utf8)).get().value == nil)
        #expect(try await decode(Data?.self, Data("a".utf8)).get().value == Data("a".utf8))
        #expect(try await decode(String?.self, Data([0xFC]), "text/plain; charset=latin1").get().value == "ü")
        #expect(try await message(User?.self, Data(" ".utf8)).contains("it is not valid JSON"))
    }

    @Test(arguments: [[], [0], [0xEF, 0xBB, 0xBF, 0x61], [0xFF, 0xFE]] as [[UInt8]])
    func dataIsTheRawBody(body: [UInt8]) async throws {
        #expect(try await decode(Data.self, Data(body), "text/plain; charset=utf-16").get().value == Data(body))
    }

    @Test(
        arguments: [
            ([], nil, ""), (Array("hü".utf8), nil, "hü"), (Array("hü".utf8), "text/plain", "hü"),
            (Array("hü".utf8), "text/plain; charset=utf-8", "hü"), (Array("hü".utf8), "text/plain;CHARSET=UTF-8", "hü"),
            (Array("hü".utf8), "text/plain; a=b; charset=\"utf-8\"", "hü"),
            (Array("hü".utf8), "text/plain; charset = utf-8 ", "hü"), ([0xEF, 0xBB, 0xBF, 0x68], nil, "h"),
            ([0xEF, 0xBB, 0xBF, 0x68, 0xC3, 0xBC], "text/plain; charset=iso-8859-1", "hü"),
            ([0x68, 0xFC], "text/plain; charset=iso-8859-1", "hü"), ([0x68, 0xFC], "text/plain; charset=latin1", "hü"),
            ([0x80], "text/plain; charset=windows-1252", "€"),
            ([0xCF, 0xF0], "text/plain; charset=windows-1251", "Пр"),
            ([0x68], "text/plain; charset=us-ascii", "h"), ([0xFF, 0xFE, 0x68, 0, 0xFC, 0], nil, "hü"),
            ([0xFE, 0xFF, 0, 0x68, 0, 0xFC], nil, "hü"), ([0xFE, 0xFF, 0, 0x68], "text/plain; charset=utf-16", "h"),
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
        #expect(try await decode(String.self, Data(body), contentType).get().value == text)
    }

    /// Charsets of the registry of IANA, and the bytes of one text in each.
    @Test(
        arguments: [
            ("GBK", [0xC4, 0xE3, 0xBA, 0xC3], "你好"), ("gb2312", [0xC4, 0xE3, 0xBA, 0xC3], "你好"),
            // Servers name the older charset for text of its superset.
            ("GB2312", [0xE9, 0x46], "镕"), ("EUC-KR", [0x8C, 0x63], "똠"),
            ("gb18030", [0xC4, 0xE3, 0x94, 0x39, 0xFC, 0x36], "你😀"), ("x-gbk", [0xC4, 0xE3], "你"),
            ("cp936", [0xC4, 0xE3], "你"), ("Big5", [0xA7, 0x41, 0xA6, 0x6E], "你好"), ("Big5-HKSCS", [0xA7, 0x41], "你"),
            ("EUC-KR", [0xB0, 0xA1], "가"), ("ks_c_5601-1987", [0xB0, 0xA1], "가"), ("Shift_JIS", [0x93, 0xFA], "日"),
            ("x-sjis", [0x93, 0xFA], "日"), ("Windows-31J", [0x93, 0xFA], "日"),
            ("ISO-2022-JP", [0x1B, 0x24, 0x42, 0x46, 0x7C, 0x1B, 0x28, 0x42], "日"),
            ("windows-1255", [0xF9, 0xEC], "של"), ("windows-1256", [0xC8], "ب"), ("windows-1257", [0xE0], "ą"),
            ("windows-1258", [0xD0], "Đ"), ("windows-874", [0xA1], "ก"), ("TIS-620", [0xA1], "ก"),
            ("cp1252", [0x80], "€"), ("KOI8-R", [0xCF], "о"), ("koi8-u", [0xA4], "є"), ("IBM866", [0x8F], "П"),
            ("macintosh", [0x8E], "é"), ("ISO-8859-5", [0xBF], "П"), ("ISO-8859-7", [0xE1], "α"),
            ("iso-8859-8-i", [0xE0], "א"), ("ISO-8859-9", [0xFD], "ı"), ("ISO-8859-15", [0xA4], "€"),
        ] as [(String, [UInt8], String)])
    func charsetsOfFoundationAreDecoded(charset: String, body: [UInt8], text: String) async throws {
        let type = "text/plain; charset=\(charset)"
        #expect(try await decode(String.self, Data(body), type).get().value == text)
        #expect(try await decode(String.self, Data("plain".utf8), type).get().value == "plain")
    }

    /// On Linux, Foundation knows this charset, but cannot decode it.
    @Test func plainTextIsDecodedInACharsetThatCannotBe() async throws {
        #expect(try await decode(String.self, Data("plain".utf8), "text/plain; charset=EUC-JP").get().value == "plain")
    }

    @Test(
        arguments: [
            ([0x68, 0xFC], nil, "not valid UTF-8"), ([0x68, 0xFC], "text/plain; charset=utf-8", "not valid utf-8"),
            ([0xC3], nil, "not valid UTF-8"), ([0xEF, 0xBB, 0xBF, 0xFF], nil, "not valid UTF-8"),
            ([0x68, 0xFC], "text/plain; charset=us-ascii", "not valid us-ascii"),
            ([0x68, 0xFC], "text/plain; charset=klingon", "\"klingon\" is unknown"),
            ([0xC4, 0xE3, 0xBA], "text/plain; charset=gbk", "not valid gbk"), ([0x68], "text/plain; charset=", ""),
        ] as [([UInt8], String?, String)])
    func textThatCannotBeDecodedKeepsTheBody(body: [UInt8], contentType: String?, reason: String) async throws {
        guard contentType?.hasSuffix("=") != true else {
            // A charset without a value counts as no charset.
            return #expect(try await decode(String.self, Data(body), contentType).get().value == "h")
        }
        let error = try #require(try await decode(String.self, Data(body), contentType).failure as? RequestError)
        error.expect(.decodingFailed, status: 200)
        #expect(error.body == Data(body))
        #expect(error.message.contains(reason))
        #expect(error.underlying != nil)
    }

    @Test func keyWithALineEndStaysInOneLine() async throws {
        _ = try await message([String: Int].self, Data(#"{"a\nb":"x"}"#.utf8))
    }

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
        let server = StubServer { $0.answer(200, expectedBytes: 10, pieces: [Data("abc".utf8)], then: .cut) }
        let request = Request<Data>.get("http://stub/").decoding { body, _ in calls.record(body) }
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .connectionLost && error.response?.statusCode == 200)
        #expect(calls.count == 0)
    }
}

@Suite struct DecodingWordsTests {
    private struct User: Codable {
        var id: Int?
        var tags: [String]?
        var kind: Kind?
        var born: Date?
    }

    private enum Kind: String, Codable {
        case admin
    }

    private func words<Output: Decodable>(_ type: Output.Type, _ text: String) -> String? {
        do {
            _ = try ResponseDecoding.json(type, Data(text.utf8), ResponseHead(statusCode: 200), JSONDecoder())
            return nil
        } catch { return error.decodingWords }
    }

    @Test(arguments: [
        (#"{"user":{"tags":["a","b",3]}}"#, "at user.tags[2]: expected String, found number"),
        (#"{"user":{"id":"1"}}"#, "at user.id: expected Int, found a string"),
        (#"{"user":[]}"#, "at user: expected an object, found an array"),
        (#"{"user":{"tags":{}}}"#, "at user.tags: expected an array, found a dictionary"),
        (#"{"user":null}"#, "at user: expected an object, found null"),
        (#"{"user":{"tags":[null]}}"#, "at user.tags[0]: expected String, found null"),
        (#"{"a b\"c":{"id":true}}"#, #"at ["a b\"c"].id: expected Int, found bool"#),
        (#"{"user":{"kind":"root"}}"#, "at user.kind: Cannot initialize Kind from invalid String value root"),
        ("[]", "expected an object, found an array"), ("1", "expected an object, found number"),
    ])
    func placeAndTypesAreNamed(text: String, words: String) {
        #expect(self.words([String: User].self, text) == words)
    }

    private struct Strict: Decodable {
        var user: Inner
        struct Inner: Decodable { var id: Int }
    }

    @Test func missingKeyIsNamed() {
        #expect(words(Strict.self, "{}") == #"the key "user" is missing"#)
        #expect(words(Strict.self, #"{"user":{}}"#) == #"at user: the key "id" is missing"#)
    }

    /// A body may have keys and values of any length.
    @Test func messagesAreShort() throws {
        let key = String(repeating: "k", count: 100_000)
        #expect(try #require(words([String: Int].self, "{\"\(key)\":[]}")).count < 300)
        let nested = String(repeating: "{\"abcdefghij\":", count: 400) + "1" + String(repeating: "}", count: 400)
        #expect(try #require(words(Nest.self, nested)).count < 400)
        #expect(try #require(words([Kind].self, "[\"\(key)\"]")).count < 400)
    }

    private final class Nest: Decodable {
        let abcdefghij: Nest
    }

    private struct Refusal: Error, CustomStringConvertible {
        var description: String { "not today" }
    }

    @Test func otherErrorsSpeakForThemselves() {
        #expect((Refusal() as any Error).decodingWords == "not today")
    }
}
