// Text of a body on a terminal, piece by piece.
import Convoy
import Foundation

/// Takes the bytes of a text as they come, and gives what a terminal may show of them.
///
/// Line ends and tabs stay; whatever else could steer a terminal becomes a question mark.
struct TerminalText {
    /// The beginning of a character whose end has not come.
    private var held: [UInt8] = []

    mutating func take(_ data: Data) -> String {
        var bytes = held + data
        held = Array(bytes.suffix(Self.openCount(bytes)))
        bytes.removeLast(held.count)
        return Self.shown(bytes)
    }

    /// What is left at the end.
    var rest: String { Self.shown(held) }

    /// How many bytes at the end are the beginning of a character.
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

    private static func shown(_ bytes: [UInt8]) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars where scalar != "\r" {
            let isKept = scalar == "\n" || scalar == "\t" || !scalar.isUnsafeToShow
            shown.append(isKept ? scalar : "?")
        }
        return String(shown)
    }
}
