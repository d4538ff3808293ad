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
}
