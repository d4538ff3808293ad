// Converts a body to text for a terminal, chunk by chunk.
import Convoy
import Foundation

/// Converts the arriving bytes of a text for display on a terminal.
///
/// Newlines and tabs are unchanged, and carriage returns are removed. Other characters that could control a terminal
/// become question marks.
struct TerminalText {
    /// The start of a character whose end has not arrived.
    private var held: [UInt8] = []

    mutating func take(_ data: Data) -> String {
        var bytes = held + data
        held = Array(bytes.suffix(Self.openCount(bytes)))
        bytes.removeLast(held.count)
        return Self.cleaned(bytes)
    }

    /// The text of the bytes that remain after the last chunk.
    var rest: String { Self.cleaned(held) }

    /// The number of bytes at the end that begin an incomplete character.
    private static func openCount(_ bytes: [UInt8]) -> Int {
        for (place, byte) in bytes.suffix(3).reversed().enumerated() {
            switch byte {
            case 0x80...0xBF: continue
            case 0xC2...0xDF: return place < 1 ? place + 1 : 0
            case 0xE0...0xEF: return place < 2 ? place + 1 : 0
            case 0xF0...0xF4: return place + 1
            default: return 0
            }
        }
        return 0
    }

    private static func cleaned(_ bytes: [UInt8]) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars where scalar != "\r" {
            let isKept = scalar == "\n" || scalar == "\t" || !scalar.isUnsafeToShow
            shown.append(isKept ? scalar : "?")
        }
        return String(shown)
    }
}
