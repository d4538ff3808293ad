import Foundation
import Testing

@testable import Convoy

@Suite struct LineParserTests {
    /// The lines of a text that arrives in these pieces.
    private static func lines(_ pieces: [Data], maxBytes: Int = 1 << 20) throws -> [String] {
        var parser = LineParser(maxBytes: maxBytes)
        var lines: [String] = []
        for piece in pieces {
            parser.append(piece)
            while let line = try parser.next() { lines.append(line) }
        }
        if let last = parser.finish() { lines.append(last) }
        return lines
    }

    @Test(
        arguments: [
            ("", []), ("a", ["a"]), ("a\n", ["a"]), ("\n", [""]), ("\r", [""]), ("\r\n", [""]), ("\n\r", ["", ""]),
            ("a\nb", ["a", "b"]), ("a\r\nb\rc\n", ["a", "b", "c"]), ("a\n\nb", ["a", "", "b"]),
            ("a\r\r\nb\r\n\r\n", ["a", "", "b", ""]), ("\u{FEFF}a\n\u{FEFF}b", ["a", "\u{FEFF}b"]), ("\u{FEFF}", []),
            ("\u{FEFF}\n", [""]), ("a\u{2028}b\u{85}c\u{B}d", ["a\u{2028}b\u{85}c\u{B}d"]), ("a\u{0}b\n", ["a\u{0}b"]),
            ("ü\n\u{301}\n", ["ü", "\u{301}"]), (" \n", [" "]),
        ] as [(String, [String])])
    func linesEndWithLFOrCRLFOrCR(text: String, lines: [String]) throws {
        #expect(try Self.lines([Data(text.utf8)]) == lines)
        #expect(try Self.lines(text.utf8.map { Data([$0]) }) == lines)
    }

    @Test func invalidUTF8IsReplaced() throws {
        let bytes: [UInt8] = [0x61, 0xFF, 0x0A, 0xE2, 0x82, 0x0A, 0xC3, 0xBC, 0x0A, 0xC3]
        for pieces in [[Data(bytes)], bytes.map { Data([$0]) }] {
            #expect(try Self.lines(pieces) == ["a\u{FFFD}", "\u{FFFD}", "ü", "\u{FFFD}"])
        }
    }

    @Test(arguments: [1, 3, 7, 100])
    func lineOverTheLimitIsAnError(pieceBytes: Int) throws {
        func lines(_ text: String) throws -> [String] {
            let bytes = Data(text.utf8)
            let pieces = stride(from: 0, to: bytes.count, by: pieceBytes).map {
                bytes[$0..<min($0 + pieceBytes, bytes.count)]
            }
            return try Self.lines(pieces, maxBytes: 5)
        }
        #expect(try lines("12345\r\n12345\n\n12345") == ["12345", "12345", "", "12345"])
        for text in ["123456\n", "1\n123456", "123456"] {
            #expect(throws: RequestError.self) { try lines(text) }
        }
    }
}
