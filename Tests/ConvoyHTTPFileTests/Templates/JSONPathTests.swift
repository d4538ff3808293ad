import Convoy
import Testing

@testable import ConvoyHTTPFile

/// Tests paths with the examples of RFC 9535.
@Suite struct JSONPathTests {
    private func select(_ path: String, _ json: String) throws -> [String] {
        let value = try #require(JSONValue(json: json.utf8))
        return try JSONPath(path).nodes(in: value).map(\.json)
    }

    /// The limit of visited nodes applies to each segment.
    @Test func aLargeDocumentIsSearchedByEachSegment() throws {
        let small = Array(repeating: JSONValue.number("1"), count: 600_000)
        let parts = (1...2).map {
            JSONValue.object([("a", .object([("b", .number("\($0)"))])), ("rest", .array(small))])
        }
        let nodes = try JSONPath("$..a.b").nodes(in: .array(parts))
        #expect(nodes.map(\.json) == ["1", "2"])
    }

    private static let objects = #"{"o": {"j j": {"k.k": 3}}, "'": {"@": 2}}"#
    private static let pair = #"{"o": {"j": 1, "k": 2}, "a": [5, 3]}"#
    private static let letters = #"["a","b","c","d","e","f","g"]"#
    private static let deep = #"{"o": {"j": 1, "k": 2}, "a": [5, 3, [{"j": 4}, {"k": 6}]]}"#
    private static let nulls = #"{"a": null, "b": [null], "c": [{}], "null": 1}"#

    /// Examples of RFC 9535, sections 2.3, 2.5 and 2.6.
    @Test(
        arguments: [
            (objects, "$.o['j j']", [#"{"k.k":3}"#]), (objects, "$.o['j j']['k.k']", ["3"]),
            (objects, #"$.o["j j"]["k.k"]"#, ["3"]), (objects, #"$["'"]["@"]"#, ["2"]),
            (pair, "$[*]", [#"{"j":1,"k":2}"#, "[5,3]"]), (pair, "$.o[*]", ["1", "2"]),
            (pair, "$.o[*, *]", ["1", "2", "1", "2"]), (pair, "$.a[*]", ["5", "3"]),
            (#"["a","b"]"#, "$[1]", [#""b""#]), (#"["a","b"]"#, "$[-2]", [#""a""#]), (#"["a","b"]"#, "$[2]", []),
            (letters, "$[1:3]", [#""b""#, #""c""#]), (letters, "$[5:]", [#""f""#, #""g""#]),
            (letters, "$[1:5:2]", [#""b""#, #""d""#]), (letters, "$[5:1:-2]", [#""f""#, #""d""#]),
            (#"["a","b","c"]"#, "$[::-1]", [#""c""#, #""b""#, #""a""#]), (#"["a","b","c"]"#, "$[::0]", []),
            (#"["a","b","c"]"#, "$[0, 2]", [#""a""#, #""c""#]),
            (#"["a","b","c"]"#, "$[0:2, 0]", [#""a""#, #""b""#, #""a""#]),
            (pair, "$..*", [#"{"j":1,"k":2}"#, "[5,3]", "1", "2", "5", "3"]), (deep, "$..[-1].k", ["6"]),
            (deep, "$..a[2].x", []), (deep, "$['o'][\"k\"]", ["2"]),
            // RFC 9535, section 2.5.2.3.
            (deep, "$..j", ["1", "4"]), (deep, "$..[0]", ["5", #"{"j":4}"#]), (deep, "$..o", [#"{"j":1,"k":2}"#]),
            (deep, "$.a..[0, 1]", ["5", "3", #"{"j":4}"#, #"{"k":6}"#]),
            // RFC 9535, section 2.6.1.
            (nulls, "$.a", ["null"]), (nulls, "$.a[0]", []), (nulls, "$.b[*]", ["null"]), (nulls, "$.null", ["1"]),
        ] as [(String, String, [String])])
    func theTablesOfTheRFC(json: String, path: String, nodes: [String]) throws {
        #expect(try select(path, json) == nodes)
    }

    @Test(arguments: [
        "", "a", "$.", "$..", "$[", "$[]", "$['a'", "$['a", "$[01]", "$[-0]", "$[-]", "$[9007199254740992]", "$[1",
        "$ ", "$.1a", "$.a b", "$[?@.a == 1]", "$[(1)]", #"$['\x']"#, #"$["\u12"]"#, #"$["\ud800"]"#, "$['a'b']",
        "$.a..",
    ]) func anInvalidPathIsRefused(path: String) { #expect(throws: Defect.self) { try JSONPath(path) } }

    @Test func escapesOfNamesAreRead() throws {
        #expect(
            try JSONPath(#"$["a\u0041\n\"\ud83d\ude00"]"#).segments
                == JSONPath(segments: []).appending(names: ["aA\n\"😀"]).segments)
        #expect(try JSONPath("$['it\\'s']").segments == JSONPath(segments: []).appending(names: ["it's"]).segments)
        #expect(try JSONPath("$ .a [ 0 ]").segments.count == 2)
    }
}
