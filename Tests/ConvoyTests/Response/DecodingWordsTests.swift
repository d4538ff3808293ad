import Foundation
import Testing

@testable import Convoy

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
        ("[]", "expected an object, found an array"),
        ("1", "expected an object, found number"),
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

    // MARK: Syntax

    /// A JSON value whose parts are all decoded, because the decoder parses numbers and strings only then.
    private struct Value: Decodable {
        init(from decoder: any Decoder) throws {
            if var list = try? decoder.unkeyedContainer() {
                while !list.isAtEnd { _ = try list.decode(Value.self) }
            } else if (try? decoder.container(keyedBy: Key.self)) != nil {
                _ = try decoder.singleValueContainer().decode([String: Value].self)
            } else {
                let leaf = try decoder.singleValueContainer()
                if leaf.decodeNil() || (try? leaf.decode(Bool.self)) != nil || (try? leaf.decode(Double.self)) != nil {
                    return
                }
                _ = try leaf.decode(String.self)
            }
        }

        private enum Key: CodingKey {}
    }

    /// A problem is found exactly in the texts that the decoder rejects.
    ///
    /// Most of the 5,000 texts are invalid.
    @Test func problemsAreWhereTheDecoderRefuses() async {
        let wrong = await offPool {
            var generator = SeededGenerator(seed: 46)
            return (0..<5_000).compactMap { _ -> String? in
                let text = Self.nearlyJSON(using: &generator)
                let isRefused = (try? JSONDecoder().decode(Value.self, from: Data(text.utf8))) == nil
                return (JSONReader.firstDefect(in: Data(text.utf8)) != nil) == isRefused ? nil : text
            }
        }
        #expect(wrong == [])
    }

    @Test(arguments: [
        (#"{"a":"\ud800"}"#, "\\ud800, half of a surrogate pair, in line 1, column 7"),
        (#"{"a":"x\uDC00y"}"#, "\\udc00, half of a surrogate pair, in line 1, column 8"),
        ("{\n\"a\":\"\\ud83d\\ude00\\ud83d \\ude00\"}", "\\ud83d, half of a surrogate pair, in line 2, column 18"),
    ])
    func halfASurrogatePairIsNamed(text: String, words: String) {
        let error = #expect(throws: DecodingError.self) {
            try ResponseDecoding.json(
                [String: String].self, Data(text.utf8), ResponseHead(statusCode: 200), JSONDecoder())
        }
        #expect(error.map { "\($0)" }?.contains("a string contains \(words)") == true)
    }

    private static func nearlyJSON(using generator: inout SeededGenerator) -> String {
        let tokens = [
            "[", "]", "{", "}", ",", ":", "\"a\"", "1", "-2.5e3", "true", "null", " ", "\n", "\"\\n\"", "x", "\"",
        ]
        func token() -> String { tokens.randomElement(using: &generator) ?? "" }
        if Bool.random(using: &generator) {
            return (0..<Int.random(in: 1...6, using: &generator)).map { _ in token() }.joined()
        }
        var text = #"{"a":[1,{"b":"c\n"},-2.5e3],"d":null,"e":true}"#
        if Int.random(in: 0..<4, using: &generator) == 0 { return text }
        let place = text.index(text.startIndex, offsetBy: Int.random(in: 0..<text.count, using: &generator))
        text.remove(at: place)
        if Bool.random(using: &generator) { text.insert(contentsOf: token(), at: place) }
        return text
    }
}
