// What a downloaded file is called.
import Foundation

/// Makes names that are safe in any directory: a single path component that is visible, not hidden and not too long.
///
/// The names of devices on Windows (`CON`, `NUL`, `COM1`) and the characters it forbids (`:`, `?`) stay: Convoy writes no
/// files there.
///
/// It works on Unicode scalars, as file systems do: to Swift, a slash with an accent is a character of its own, and no
/// slash.
package enum FileName {
    /// What file systems take; Linux's count bytes, Apple's UTF-16 units, which are not more.
    private static let limitBytes = 255
    private static let fallback = "download"

    /// The name for a URL: the last part of its path that is not empty, its percent escapes decoded.
    package static func proposed(by url: URL) -> String {
        let last = url.path(percentEncoded: true).utf8.split(separator: UInt8(ascii: "/")).last
        let name = last.map { String(Substring($0)) } ?? ""
        return safe(name.utf8.contains(UInt8(ascii: "%")) ? name.removingPercentEncoding ?? name : name)
    }

    /// The nearest safe name: the base name only, nothing that does not show, no dots or blanks at either end, not too
    /// long, and never empty.
    ///
    /// - Parameter limitBytes: the most it may have in UTF-8, from 8 to 255; what is beyond counts as the nearest of them.
    ///   A name is cut before its extension.
    package static func safe(_ proposed: String, limitBytes: Int = 255) -> String {
        if isPlain(proposed, limitBytes: limitBytes) { return proposed }
        // Backslashes too: the list may come from, or the file go to, a system where they separate.
        let base = proposed.unicodeScalars.split { $0 == "/" || $0 == "\\" }.last.map(Substring.init) ?? ""
        let visible = base.unicodeScalars.filter { !$0.isUnsafeToShow && !$0.properties.isDefaultIgnorableCodePoint }
        let name = trimmed(Substring(visible))
        guard !name.isEmpty else { return fallback }
        let limit = min(max(limitBytes, fallback.utf8.count), Self.limitBytes)
        return String(trimmed(shortened(name, limitBytes: limit)))
    }

    /// Whether it is safe, as most are, by its bytes alone.
    private static func isPlain(_ name: String, limitBytes: Int) -> Bool {
        func isWord(_ byte: UInt8?) -> Bool {
            byte.map { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ".") } ?? false
        }
        let bytes = name.utf8
        return isWord(bytes.first) && isWord(bytes.last) && bytes.count <= min(limitBytes, Self.limitBytes)
            && bytes.allSatisfy {
                (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\")
            }
    }

    /// Whether ``safe(_:limitBytes:)`` makes it, and leaves it as it is.
    static func isSafe(_ name: String) -> Bool { safe(name).utf8.elementsEqual(name.utf8) }

    /// Whether it is the name of something in a directory, and nowhere else.
    static func isOneName(_ name: String) -> Bool {
        !name.isEmpty && name != "." && name != ".." && !name.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 }
    }

    /// The name with a number before its extension: `name-1.ext`.
    package static func numbered(_ name: String, _ number: Int) -> String {
        String(shortened(name[...], suffix: "-\(number)", limitBytes: limitBytes))
    }

    /// Without the dots that hide a name, and without those and the blanks that Windows takes away behind it.
    private static func trimmed(_ name: Substring) -> Substring {
        let scalars = name.unicodeScalars
        let isKept = { (scalar: Unicode.Scalar) in scalar != "." && !scalar.properties.isWhitespace }
        guard let first = scalars.firstIndex(where: isKept), let last = scalars.lastIndex(where: isKept) else {
            return ""
        }
        return Substring(scalars[first...last])
    }

    /// The stem, cut so that the whole fits, then the suffix and the extension.
    private static func shortened(_ name: Substring, suffix: String = "", limitBytes: Int) -> Substring {
        let (stem, fileExtension) = parts(of: name, limitBytes: limitBytes)
        let room = limitBytes - suffix.utf8.count - fileExtension.utf8.count
        guard stem.utf8.count > room else { return stem + suffix + fileExtension }
        var (kept, count) = (Substring.UnicodeScalarView(), 0)
        for scalar in stem.unicodeScalars {
            count += UTF8.width(scalar)
            guard count <= room else { break }
            kept.append(scalar)
        }
        return Substring(kept) + suffix + fileExtension
    }

    /// The extension with its dot; what is all there is, or longer than sixteen bytes or half a limit, is none.
    private static func parts(of name: Substring, limitBytes: Int) -> (stem: Substring, fileExtension: Substring) {
        guard let dot = name.unicodeScalars.lastIndex(of: "."), dot != name.startIndex,
            name[dot...].utf8.count <= min(16, limitBytes / 2)
        else { return (name, "") }
        return (name[..<dot], name[dot...])
    }
}

extension Unicode.Scalar {
    /// Whether it could steer a terminal, or make text look like what it is not.
    ///
    /// Controls, line separators, bidirectional and other invisible formatting; the joiners of scripts and emoji are
    /// fine.
    package var isUnsafeToShow: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: true
        case .format: value != 0x200C && value != 0x200D
        default: false
        }
    }
}
