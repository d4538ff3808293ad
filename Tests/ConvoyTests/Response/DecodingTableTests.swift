import Foundation
import Testing

@testable import Convoy

/// Tests the result for each kind of body: a value or an error, never a crash.
@Suite struct DecodingTableTests {
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
        #expect(error.description.isOneLine)
        return error.message
    }

    struct Encoding: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let encoding: String.Encoding
        let mark: [UInt8]

        init(_ name: String, _ encoding: String.Encoding, _ mark: [UInt8] = []) {
            (testDescription, self.encoding, self.mark) = (name, encoding, mark)
        }

        static let all = [
            Encoding("UTF-8", .utf8), Encoding("UTF-8 marked", .utf8, [0xEF, 0xBB, 0xBF]),
            Encoding("UTF-16LE", .utf16LittleEndian), Encoding("UTF-16LE marked", .utf16LittleEndian, [0xFF, 0xFE]),
            Encoding("UTF-16BE", .utf16BigEndian), Encoding("UTF-16BE marked", .utf16BigEndian, [0xFE, 0xFF]),
            Encoding("UTF-32LE", .utf32LittleEndian),
            Encoding("UTF-32LE marked", .utf32LittleEndian, [0xFF, 0xFE, 0, 0]),
            Encoding("UTF-32BE", .utf32BigEndian), Encoding("UTF-32BE marked", .utf32BigEndian, [0, 0, 0xFE, 0xFF]),
        ]

        func encode(_ text: String) throws -> Data { Data(mark) + (try #require(text.data(using: encoding))) }
    }

    /// The encoding of JSON is detected from its bytes, whatever the charset.
    @Test(arguments: Encoding.all, [nil, "application/json; charset=utf-8", "application/json; charset=iso-8859-1"])
    func jsonInEveryEncodingOfUnicode(encoding: Encoding, contentType: String?) async throws {
        let body = try encoding.encode(Self.text)
        #expect(try await decode(User.self, body, contentType).get().value == User(name: "ü😀"))
    }

    @Test(arguments: Encoding.all)
    func fragmentsInEveryEncodingOfUnicode(encoding: Encoding) async throws {
        #expect(try await decode(Int.self, try encoding.encode("4")).get().value == 4)
        #expect(try await decode(Bool.self, try encoding.encode(" true\n")).get().value)
        #expect(try await decode([String?].self, try encoding.encode("[null]")).get().value == [nil])
    }

    @Test(arguments: Encoding.all)
    func aByteOrderMarkAloneIsNotAValue(encoding: Encoding) async throws {
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
}
