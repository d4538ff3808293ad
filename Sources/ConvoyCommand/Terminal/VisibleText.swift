import Convoy
import Foundation

extension Unicode.Scalar {
    /// The number of columns, as in wcwidth(3); the larger number if terminals differ.
    var columnCount: Int {
        // U+FE0F, the emoji variation selector, makes the preceding symbol wide. So it counts as one more column.
        if value == 0xFE0F { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return 0
        default: return properties.isEmojiPresentation || Self.isWide(value) ? 2 : 1
        }
    }

    private static func isWide(_ value: UInt32) -> Bool {
        switch value {
        case 0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3,
            0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x16FE0...0x18D08,
            0x1AFF0...0x1B2FB, 0x1D300...0x1D376, 0x1F200...0x1F265, 0x1F300...0x1F64F, 0x1F900...0x1FAFF,
            0x20000...0x3FFFD:
            true
        default: false
        }
    }
}

extension Character {
    // An emoji of several scalars, for example a flag or a family, has the columns of a single emoji.
    fileprivate var columnCount: Int {
        let count = unicodeScalars.reduce(0) { $0 + $1.columnCount }
        let isEmoji = unicodeScalars.first.map { $0.properties.isEmoji && !$0.isASCII } ?? false
        return isEmoji ? min(count, 2) : count
    }
}

extension String {
    // Line ends and tabs become blanks. Other such characters become question marks.
    func visible(keepsNewlines: Bool = false) -> String {
        // Most texts are printable ASCII, which needs no Unicode tables.
        if utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) { return self }
        guard unicodeScalars.contains(where: \.isUnsafeToShow) else { return self }
        var result = UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar {
            case "\n" where keepsNewlines: result.append(scalar)
            case "\n", "\r", "\t": result.append(" ")
            default: result.append(scalar.isUnsafeToShow ? "?" : scalar)
            }
        }
        return String(result)
    }

    var columnCount: Int {
        utf8.allSatisfy { (0x20..<0x7F).contains($0) } ? utf8.count : reduce(0) { $0 + $1.columnCount }
    }

    // Three dots replace the rest if the limit is more than six columns.
    func clipped(toColumns limit: Int) -> String {
        guard columnCount > limit else { return self }
        let dots = limit > 6 ? "..." : ""
        var (result, columns) = ("", 0)
        for character in self {
            let width = character.columnCount
            guard columns + width <= limit - dots.count else { break }
            result.append(character)
            columns += width
        }
        return result + dots
    }

    // Continuation lines are indented. A word that is longer than a line is not broken.
    func wrapped(toColumns limit: Int, indentation: Int = 2) -> String {
        split(separator: "\n", omittingEmptySubsequences: false)
            .map { String($0).brokenLine(toColumns: limit, String(repeating: " ", count: indentation)) }
            .joined(separator: "\n")
    }

    private func brokenLine(toColumns limit: Int, _ indentation: String) -> String {
        guard columnCount > limit else { return self }
        var (result, columns, isFirst) = ("", 0, true)
        for word in split(separator: " ", omittingEmptySubsequences: false) {
            let width = String(word).columnCount
            if !isFirst, columns > 0, columns + 1 + width > limit {
                result += "\n" + indentation
                columns = indentation.count
            } else if !isFirst {
                result += " "
                columns += 1
            }
            isFirst = false
            result += word
            columns += width
        }
        return result
    }

    func padded(toColumns count: Int) -> String {
        String(repeating: " ", count: max(0, count - columnCount)) + self
    }

    func fitted(toColumns count: Int) -> String {
        let text = clipped(toColumns: count)
        return text + String(repeating: " ", count: max(0, count - text.columnCount))
    }
}

// Newlines and tabs are unchanged. Other characters that could control a terminal become question marks.
struct TerminalText {
    private var held: [UInt8] = []

    mutating func take(_ data: Data) -> String {
        var bytes = held + data
        held = Array(bytes.suffix(Self.openCount(bytes)))
        bytes.removeLast(held.count)
        return Self.cleaned(bytes)
    }

    var rest: String { Self.cleaned(held) }

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
