// The name of a downloaded file.
import Foundation

// Safe in any directory: a single path component, visible and not too long. Device names of Windows and its forbidden
// characters stay, because Convoy does not run there. Unicode scalars are compared, as by file systems: for Swift, a
// slash with a combining accent is not a slash.
package enum FileName {
    /// Linux counts bytes; Apple counts UTF-16 units, which are never more.
    private static let limitBytes = 255

    /// The name for a URL: the last non-empty part of its path, percent-decoded.
    package static func proposed(by url: URL) -> String {
        let last = url.path(percentEncoded: true).utf8.split(separator: UInt8(ascii: "/")).last
        let name = last.map { String(Substring($0)) } ?? ""
        return safe(name.utf8.contains(UInt8(ascii: "%")) ? name.removingPercentEncoding ?? name : name)
    }

    /// The base name without invisible characters and without leading and trailing dots and blanks; never empty.
    ///
    /// A name of more than 255 bytes is shortened before its extension.
    package static func safe(_ proposed: String) -> String {
        // Most names are plain. For the others, this function makes a dozen strings.
        if !proposed.isEmpty, proposed.utf8.count <= limitBytes, proposed.utf8.allSatisfy(\.isTokenByte),
            !proposed.hasPrefix("."), !proposed.hasSuffix(".")
        {
            return proposed
        }
        // A backslash separates components like a slash, because the name may come from Windows, or the file may be
        // copied to Windows.
        let base = proposed.unicodeScalars.split { $0 == "/" || $0 == "\\" }.last.map(Substring.init) ?? ""
        let visible = base.unicodeScalars.filter { !$0.isUnsafeToShow && !$0.properties.isDefaultIgnorableCodePoint }
        let name = trimmed(Substring(visible))
        return name.isEmpty ? "download" : String(trimmed(shortened(name)))
    }

    static func isSafe(_ name: String) -> Bool { safe(name).utf8.elementsEqual(name.utf8) }

    /// Whether the name is a single path component that stays in its directory.
    static func isOneName(_ name: String) -> Bool {
        !name.isEmpty && name != "." && name != ".." && !name.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 }
    }

    /// The name with a number before its extension: `name-1.ext`, `name-1.tar.gz`.
    package static func numbered(_ name: String, _ number: Int) -> String {
        String(shortened(name[...], suffix: "-\(number)"))
    }

    /// A leading dot hides a file, and Windows removes trailing dots and blanks.
    private static func trimmed(_ name: Substring) -> Substring {
        let scalars = name.unicodeScalars
        let isKept = { (scalar: Unicode.Scalar) in scalar != "." && !scalar.properties.isWhitespace }
        guard let first = scalars.firstIndex(where: isKept), let last = scalars.lastIndex(where: isKept) else {
            return ""
        }
        return Substring(scalars[first...last])
    }

    private static func shortened(_ name: Substring, suffix: String = "") -> Substring {
        let (stem, fileExtension) = parts(of: name)
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

    // The extension, with its dot, is empty without a stem, or if it would exceed sixteen bytes. That of a compressed or
    // signed file includes its content's, as in `.tar.gz`.
    private static func parts(of name: Substring) -> (stem: Substring, fileExtension: Substring) {
        var (stem, isWrapped) = (name, true)
        while isWrapped, let dot = stem.unicodeScalars.lastIndex(of: "."), dot != name.startIndex,
            name[dot...].utf8.count <= 16
        {
            let part = stem[dot...].dropFirst()
            // A number may be a version, as in `linux-6.1.gz`.
            guard stem.endIndex == name.endIndex || part.first?.isLetter == true else { break }
            isWrapped = wrappers.contains(part.lowercased())
            stem = stem[..<dot]
        }
        return (stem, name[stem.endIndex...])
    }

    /// The extensions that follow the extension of the content.
    private static let wrappers: Set = [
        "asc", "br", "bz2", "gpg", "gz", "lz", "lz4", "lzma", "sig", "xz", "z", "zst",
    ]
}

extension Unicode.Scalar {
    /// Control characters, line separators, and invisible formatting, except the joiners of scripts and emoji.
    package var isUnsafeToShow: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: true
        case .format: value != 0x200C && value != 0x200D
        default: false
        }
    }
}

extension ResponseHead {
    /// The file name that the server proposes (`Content-Disposition`, RFC 6266 and RFC 8187), made safe; nil if none.
    ///
    /// A safe name is a visible name that stays in its directory: the last part of a path, without invisible characters,
    /// without leading or trailing dots and blanks, and at most 255 bytes long.
    /// ``Request/saved(in:verifying:existing:permissions:)`` uses this name, or the last part of the URL.
    ///
    /// - Complexity: O(*n*) for the bytes of the field.
    public var proposedFileName: String? { headerFields.proposedFileName.map { FileName.safe($0) } }
}

extension HeaderFields {
    /// The server's text, decoded but not checked; see ``FileName/safe(_:)``.
    var proposedFileName: String? { values(of: "Content-Disposition").lazy.compactMap(Self.fileName).first }

    private static func fileName(_ text: String) -> String? {
        let parameters = text.bytesSent.parameters
        if let name = parameters["filename*"].flatMap(decoded), !name.isEmpty { return name }
        guard let name = parameters["filename"], !name.isEmpty else { return nil }
        return String(decoding: name, as: UTF8.self)
    }

    /// Reads an extended value, `UTF-8'en'na%C3%AFve` (RFC 8187, section 3.2); nil when it is malformed or in an
    /// unsupported character set.
    private static func decoded(_ bytes: [UInt8]) -> String? {
        let parts = bytes.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let value = percentDecoded(parts[2]) else { return nil }
        let charset = String(decoding: parts[0], as: UTF8.self)
        // `UTF8` is not a registered name, but servers send it.
        if charset.equalsIgnoringCase("UTF-8") || charset.equalsIgnoringCase("UTF8") {
            return String(validating: value, as: UTF8.self)
        }
        // An unescaped byte beyond ASCII is rejected, because it need not be in ISO-8859-1.
        guard charset.equalsIgnoringCase("ISO-8859-1"), parts[2].allSatisfy({ $0 < 0x80 }) else { return nil }
        return String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }

    private static func percentDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var decoded: [UInt8] = []
        var rest = bytes
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                decoded.append(byte)
                continue
            }
            guard let high = rest.popFirst()?.hexadecimalValue, let low = rest.popFirst()?.hexadecimalValue else {
                return nil
            }
            decoded.append(high << 4 | low)
        }
        return decoded
    }
}

extension String {
    /// Undoes the decoding as Latin-1 if the bytes are valid UTF-8, which text sent in Latin-1 in practice never is.
    fileprivate var bytesSent: [UInt8] {
        let latin = unicodeScalars.compactMap { UInt8(exactly: $0.value) }
        guard latin.count == unicodeScalars.count, String(validating: latin, as: UTF8.self) != nil else {
            return Array(utf8)
        }
        return latin
    }
}
