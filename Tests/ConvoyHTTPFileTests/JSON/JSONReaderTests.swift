import ConvoyHTTPFile
import Testing

@Suite struct JSONReaderTests {
    private func defect(_ json: some Sequence<UInt8>) -> JSONReader.Defect? {
        do throws(JSONReader.Defect) { _ = try JSONReader.elements(of: Array(json)) } catch { return error }
        return nil
    }

    @Test(arguments: [
        "", " ", "[", "]", "{", "{]", "[}", "[,]", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}",
        "{\"a\":1 \"b\":2}", "{,}", "nul", "tru e", "-", "+1", "1.", ".5", "1e", "1e+", "01", "-01", "0x1", "\"",
        "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12G4\"", "\"\t\"", "1 1", "[] []", "'a'", "[1]\u{0}",
        "\u{FEFF}\u{FEFF}1", "NaN",
        "[1,,2]", "{\"a\"::1}", "//\n1", "\u{A0}1",
    ])
    func invalidJSONHasADefect(text: String) {
        #expect(defect(text.utf8) != nil)
    }

    @Test(arguments: [
        "0", "-0", "1.5", "-1.5e-10", "1E+5", "0.0", "10", "\"\"", "\"\\\\\"", "\"\\\"\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "true", "false", "null", "[]", "{}", "[[],{}]", " [ 1 , 2 ] ", "{\"a\":{\"b\":[1]},\"c\":null}", "\r\n\t1",
    ])
    func jsonHasNoProblem(text: String) {
        #expect(defect(text.utf8) == nil)
        #expect(JSONValue(json: text.utf8) != nil)
    }

    @Test func valuesAreReadAndWrittenAgain() throws {
        let text = #"{"a":[1,-2.5e+3,true,false,null,"x\"\\\n\u00e9😀"],"b":{},"a":[[],[{}]]}"#
        let value = try #require(JSONValue(json: text.utf8))
        #expect(value.json == #"{"a":[1,-2.5e+3,true,false,null,"x\"\\\né😀"],"b":{},"a":[[],[{}]]}"#)
        #expect(JSONValue(json: value.json.utf8) == value)
        #expect(JSONValue(json: "\u{FEFF} [1]".utf8) == [1])
    }

    @Test(arguments: [
        (#""\ud83d\ude00 \ud800""#, "😀 \u{FFFD}"), (#""\ud800\u0041""#, "\u{FFFD}A"), (#""\ude00x""#, "\u{FFFD}x"),
        (#""a\/b\bc""#, "a/b\u{8}c"), (#""\u00E9\u00e9""#, "éé"),
    ])
    func escapesStandForCharacters(text: String, value: String) {
        #expect(JSONValue(json: text.utf8) == .string(value))
    }

    /// Number parsers accept some of these digits, so the reader checks each digit.
    @Test(arguments: ["+041", "-041", " 041", "0x41", "004", "004g", "\u{FF10}041"])
    func anEscapeNeedsFourHexadecimalDigits(digits: String) {
        #expect(JSONValue(json: "\"\\u\(digits)\"".utf8) == nil)
        #expect(JSONValue(json: "\"\\ud83d\\u\(digits)\"".utf8) == nil)
    }

    @Test(arguments: [
        [0x22, 0xFF, 0x22], [0x22, 0xC3, 0x22], [0x22, 0x5C, 0x6E, 0xED, 0xA0, 0x80, 0x22], [0xC3, 0xA9],
    ])
    func invalidUTF8IsRefused(bytes: [UInt8]) {
        #expect(JSONValue(json: bytes) == nil)
    }

    /// U+FFFD begins with the same byte.
    @Test func theFirstInvalidByteIsNamed() {
        let text = Array("{\"a\":\"".utf8) + [0xEF, 0x22, 0x7D]
        let defect = #expect(throws: JSONReader.Defect.self) { try JSONReader.read(text) }
        #expect(defect?.description == "it is not valid UTF-8 in line 1, column 7")
    }

    @Test func depthIsLimited() {
        func nested(_ depth: Int) -> [UInt8] {
            Array(String(repeating: "[", count: depth).utf8) + Array(String(repeating: "]", count: depth).utf8)
        }
        #expect(JSONValue(json: nested(128)) != nil && JSONValue(json: nested(129)) == nil)
        #expect(defect(nested(512)) == nil)
        #expect(defect(nested(513))?.what == "it is nested deeper than 512")
        #expect(JSONValue(json: nested(1_000_000)) == nil)
    }

    @Test func placeIsThatOfTheCharacter() {
        let defect = defect("[\n\"é😀\", x]".utf8)
        #expect(defect?.description == "found x instead of a value in line 2, column 7")
    }

    @Test func membersAreAppendedInOrder() {
        var value: JSONValue = ["b": 1]
        value.append("a", "x\u{1}\u{85}")
        #expect(value.json == #"{"b":1,"a":"x\u0001\u0085"}"#)
        var list: JSONValue = [1]
        list.append("a", 2)
        #expect(list == [1])
    }
}
