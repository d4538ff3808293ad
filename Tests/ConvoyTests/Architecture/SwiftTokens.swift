import Foundation

/// One word or sign of a Swift source.
struct SwiftToken {
    let text: String
    let line: Int

    /// Whether the token is an identifier that starts with an upper-case letter, like the names of types.
    var isTypeName: Bool { text.utf8.first.map { (0x41...0x5A).contains($0) } ?? false }
    /// Whether the token is a keyword, or an identifier that starts with a lower-case letter or `_`, like the names of
    /// members.
    var isWord: Bool { text.utf8.first.map { (0x61...0x7A).contains($0) || $0 == 0x5F } ?? false }
}

/// Splits a Swift source into words and signs.
///
/// Comments and literals are omitted, but not the interpolations in strings.
struct SwiftTokenizer {
    private let bytes: [UInt8]
    private var position = 0
    private var line = 1
    private(set) var tokens: [SwiftToken] = []

    static func tokens(of source: String) -> [SwiftToken] {
        // NUL bytes at the end stop every search.
        var tokenizer = SwiftTokenizer(bytes: Array(source.utf8) + [0, 0, 0])
        tokenizer.tokens.reserveCapacity(source.utf8.count / 5)
        tokenizer.readCode(isInterpolation: false)
        return tokenizer.tokens
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Reads code to the end of the source, or to the parenthesis that ends an interpolation.
    private mutating func readCode(isInterpolation: Bool) {
        var depth = 0
        while position < bytes.count - 3 {
            let byte = bytes[position]
            switch byte {
            case 0x20: position += 1
            case 0x0A:
                line += 1
                position += 1
            case 0x61...0x7A, 0x41...0x5A, 0x5F: readWord()
            case 0x30...0x39: skip { Self.isWordByte($0) }
            case UInt8(ascii: "/") where bytes[position + 1] == UInt8(ascii: "/"): skip { $0 != 0x0A }
            case UInt8(ascii: "/") where bytes[position + 1] == UInt8(ascii: "*"): skipComment()
            case UInt8(ascii: "\""): readString(hashes: 0)
            case UInt8(ascii: "#"): readHash()
            case UInt8(ascii: "-") where bytes[position + 1] == UInt8(ascii: ">"):
                tokens.append(SwiftToken(text: "->", line: line))
                position += 2
            case UInt8(ascii: "("), UInt8(ascii: ")"):
                depth += byte == UInt8(ascii: "(") ? 1 : -1
                if isInterpolation, depth < 0 { return }
                fallthrough
            default:
                tokens.append(SwiftToken(text: String(UnicodeScalar(byte)), line: line))
                position += 1
            }
        }
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7A, 0x41...0x5A, 0x30...0x39, 0x5F: true
        default: byte >= 0x80
        }
    }

    private mutating func readWord() {
        let start = position
        repeat { position += 1 } while Self.isWordByte(bytes[position])
        tokens.append(SwiftToken(text: String(decoding: bytes[start..<position], as: UTF8.self), line: line))
    }

    private mutating func skip(while isMeant: (UInt8) -> Bool) {
        while bytes[position] != 0, isMeant(bytes[position]) { position += 1 }
    }

    /// Skips a block comment and the comments nested in it.
    private mutating func skipComment() {
        var depth = 0
        repeat {
            switch (bytes[position], bytes[position + 1]) {
            case (UInt8(ascii: "/"), UInt8(ascii: "*")):
                depth += 1
                position += 2
            case (UInt8(ascii: "*"), UInt8(ascii: "/")):
                depth -= 1
                position += 2
            case (0x0A, _):
                line += 1
                position += 1
            default: position += 1
            }
        } while depth > 0 && position < bytes.count - 3
    }

    /// Reads a raw string, a regular expression between `#/` and `/#`, or a sign.
    private mutating func readHash() {
        let start = position
        skip { $0 == UInt8(ascii: "#") }
        switch bytes[position] {
        case UInt8(ascii: "\""): readString(hashes: position - start)
        case UInt8(ascii: "/"):
            while bytes[position] != 0, bytes[position] != UInt8(ascii: "/") || bytes[position + 1] != UInt8(ascii: "#")
            {
                if bytes[position] == 0x0A { line += 1 }
                position += 1
            }
            position += 2
        default: tokens.append(SwiftToken(text: "#", line: line))
        }
    }

    private mutating func readString(hashes: Int) {
        let isMultiline = bytes[position + 1] == UInt8(ascii: "\"") && bytes[position + 2] == UInt8(ascii: "\"")
        let quotes = isMultiline ? 3 : 1
        position += quotes
        while position < bytes.count - 3 {
            switch bytes[position] {
            case UInt8(ascii: "\"") where isFollowed(by: UInt8(ascii: "\""), quotes, then: hashes):
                position += quotes + hashes
                return
            case UInt8(ascii: "\\") where isFollowed(by: UInt8(ascii: "\\"), 1, then: hashes):
                position += 1 + hashes
                if bytes[position] == UInt8(ascii: "(") {
                    position += 1
                    readCode(isInterpolation: true)
                } else if bytes[position] == 0x0A {
                    continue
                }
                position += 1
            case 0x0A:
                line += 1
                position += 1
                // An unclosed literal ends at the end of its line.
                if !isMultiline { return }
            default: position += 1
            }
        }
    }

    private func isFollowed(by byte: UInt8, _ count: Int, then hashes: Int) -> Bool {
        let (middle, end) = (position + count, position + count + hashes)
        guard end <= bytes.count else { return false }
        return bytes[position..<middle].allSatisfy { $0 == byte }
            && bytes[middle..<end].allSatisfy { $0 == UInt8(ascii: "#") }
    }
}
