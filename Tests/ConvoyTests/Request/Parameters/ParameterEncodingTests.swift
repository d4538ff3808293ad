import Foundation
import Testing

@testable import Convoy

@Suite struct ParameterEncodingTests {
    // MARK: Alamofire

    @Test(arguments: AlamofireCase.all)
    func textsEqualThoseOfAlamofire(_ known: AlamofireCase) throws {
        #expect(try known.encoding.encode(known.parameters) == known.text)
    }

    // MARK: Differences from Alamofire

    @Test(
        arguments: [
            // Sorting pairs does not sort the elements of an array.
            (["a": ["c", "b"], "A": ["d"]], .default, "A%5B%5D=d&a%5B%5D=c&a%5B%5D=b"),
            (["a": [10, 9]], .init(arrayEncoding: .indexInBrackets), "a%5B0%5D=10&a%5B1%5D=9"),
            // Omitted elements do not change the indexes of later ones.
            (["a": [nil, 1]], .init(arrayEncoding: .indexInBrackets), "a%5B1%5D=1"),
            (["a": [[], [1]]], .init(arrayEncoding: .indexInBrackets), "a%5B1%5D%5B0%5D=1"),
            // The words of a key end at brackets and dots.
            (["userID": ["name": 1]], .init(keyEncoding: .convertToSnakeCase), "user_id%5Bname%5D=1"),
            (["user": ["Name": 1]], .init(keyEncoding: .convertToSnakeCase), "user%5Bname%5D=1"),
            (
                ["userID": ["isOn": 1]], .init(keyEncoding: .convertToKebabCase, keyPathEncoding: .dots),
                "user-id.is-on=1"
            ),
            // No choice of allowed characters changes the meaning of the text.
            (
                ["a&": "b=c%#+ é\"<"], .init(allowedCharacters: Set("&=%#+ é\"<[]")),
                "a%26=b%3Dc%25%23%2B%20%C3%A9%22%3C"
            ),
        ] as [(ParameterValue, ParameterEncoding, String)])
    func losesNothing(_ parameters: ParameterValue, _ encoding: ParameterEncoding, _ text: String) throws {
        #expect(try encoding.encode(parameters) == text)
    }

    /// Alamofire treats numeric keys as indexes of an array.
    @Test func keysThatAreNumbersAreKeys() throws {
        #expect(try ParameterEncoding.default.encode([5: "a", 10: "b"]) == "10=b&5=a")
        #expect(try ParameterEncoding.default.encode(["a": [7: ["b": 1]]]) == "a%5B7%5D%5Bb%5D=1")
    }

    /// `URL` encodes itself as a dictionary.
    ///
    /// Other encoders replace the dictionary by text; Alamofire's does not.
    @Test func urlIsItsAbsoluteString() throws {
        let base = try #require(URL(string: "http://h/a/"))
        #expect(try ParameterEncoding.default.encode(["u": base]) == "u=http%3A//h/a/")
        let relative = URL(string: "b?c=d", relativeTo: base)
        #expect(try ParameterEncoding.default.encode(["u": relative]) == "u=http%3A//h/a/b?c%3Dd")
    }

    // MARK: Empty arrays and dictionaries, nil

    private enum Filter: Encodable {
        case everything
        case tagged(String)
    }

    @Test(
        arguments: [
            (.dropKey, "z=1"), (.dropValue, "a=&b%5B%5D=&b%5B%5D=&c%5Bd%5D=&z=1"),
        ] as [(ParameterEncoding.EmptyEncoding, String)])
    func theOptionDecidesAboutEmptyContainers(_ option: ParameterEncoding.EmptyEncoding, _ text: String) throws {
        let parameters: ParameterValue = ["a": [], "b": [[], [:]], "c": ["d": [:]], "z": 1]
        #expect(try ParameterEncoding(emptyEncoding: option).encode(parameters) == text)
    }

    @Test func emptyContainersCanBeRefused() {
        let encoding = ParameterEncoding(emptyEncoding: .refuse)
        let error = #expect(throws: EncodingError.self) { try encoding.encode(["a": [["b": [] as [Int]]]]) }
        #expect(error?.reason == "a[0].b: it is empty")
        // A case without associated values encodes itself as an empty dictionary.
        #expect(throws: EncodingError.self) { try encoding.encode(["filter": Filter.everything]) }
        #expect(throws: Never.self) { try encoding.encode(["filter": Filter.tagged("a")]) }
        #expect(throws: Never.self) { try encoding.encode(["a": [nil, 1]]) }
        #expect((try? encoding.encode([:] as [String: Int])) == "")
    }

    @Test(arguments: [.dropKey, .dropValue, .null] as [ParameterEncoding.NilEncoding])
    func nilParametersGiveAnEmptyText(_ option: ParameterEncoding.NilEncoding) throws {
        #expect(try ParameterEncoding(nilEncoding: option).encode(nil as [String: Int]?) == "")
    }

    // MARK: Equality

    @Test func encodingsAreEqualWhenTheirOptionsAre() {
        #expect(ParameterEncoding() == .default)
        #expect(ParameterEncoding(keyEncoding: .uppercased) == ParameterEncoding(keyEncoding: .uppercased))
        #expect(ParameterEncoding(keyEncoding: .uppercased) != ParameterEncoding(keyEncoding: .lowercased))
        #expect(ParameterEncoding(nilEncoding: .custom("")) != ParameterEncoding(nilEncoding: .dropValue))
        let custom = ParameterEncoding(keyEncoding: .custom { $0 })
        let copy = custom
        #expect(custom == copy)
        #expect(custom.hashValue == copy.hashValue)
        #expect(custom != ParameterEncoding(keyEncoding: .custom { $0 }))
    }

    // MARK: Cost

    /// Tests thousands of keys and elements.
    ///
    /// In quadratic time the test would take minutes.
    @Test(.timeLimit(.minutes(5))) func costIsNearlyLinear() throws {
        let many = ParameterValue.dictionary(
            Dictionary(uniqueKeysWithValues: (0..<30_000).map { ("\($0)", .array([.integer($0)])) }))
        let text = try ParameterEncoding.default.encode(many)
        #expect(text.utf8.count(where: { $0 == UInt8(ascii: "=") }) == 30_000)
        let wide = try ParameterEncoding.default.encode(["a": Array(0..<30_000)])
        #expect(wide.hasSuffix("=29999"))
    }
}
