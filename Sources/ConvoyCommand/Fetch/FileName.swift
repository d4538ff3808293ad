// What a downloaded file is called.
import Foundation

/// Makes names that are safe in any directory: a single path component that is visible, not hidden and not too long.
enum FileName {
    static let limitBytes = 255
    static let fallback = "download"

    /// The name for a URL: the last part of its path that is not empty, its percent escapes decoded.
    static func proposed(by url: URL) -> String {
        let last = url.path(percentEncoded: true).split(separator: "/").last.map(String.init) ?? ""
        return safe(last.removingPercentEncoding ?? last)
    }

    /// The nearest safe name: the base name only, nothing that does not show, no dots or blanks in front, at most 255
    /// bytes, and never empty.
    static func safe(_ proposed: String) -> String {
        // Backslashes too: the list may come from, or the file go to, a system where they separate.
        let base = proposed.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last ?? ""
        var scalars = String.UnicodeScalarView()
        scalars.append(contentsOf: base.unicodeScalars.filter { !$0.isUnsafeToShow })
        let visible = String(String(scalars).drop { $0 == "." || $0.isWhitespace }).trimmingCharacters(in: .whitespaces)
        return visible.isEmpty ? fallback : shortened(visible, suffix: "")
    }

    /// The name with a number before its extension: `name-1.ext`.
    static func numbered(_ name: String, _ number: Int) -> String { shortened(name, suffix: "-\(number)") }

    /// The stem, cut so that the whole fits, then the suffix and the extension.
    private static func shortened(_ name: String, suffix: String) -> String {
        let (stem, fileExtension) = parts(of: name)
        let room = limitBytes - suffix.utf8.count - fileExtension.utf8.count
        guard stem.utf8.count > room else { return stem + suffix + fileExtension }
        var (kept, count) = (String.UnicodeScalarView(), 0)
        for scalar in stem.unicodeScalars {
            count += UTF8.width(scalar)
            guard count <= room else { break }
            kept.append(scalar)
        }
        return String(kept) + suffix + fileExtension
    }

    /// The extension with its dot; what is longer than sixteen bytes, or all there is, is none.
    private static func parts(of name: String) -> (stem: Substring, fileExtension: Substring) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex, name[dot...].utf8.count <= 16 else {
            return (name[...], "")
        }
        return (name[..<dot], name[dot...])
    }
}

/// Gives each file of a run a name of its own.
///
/// It keeps a hash of each name and not the name, so that a million names take some twenty megabytes. Two names with
/// the same hash cost one of them a number, and nothing else.
struct FileNameRegister {
    /// For each name that was given: which number to try next when it comes again.
    private var nextNumbers: [Int: Int32] = [:]

    /// The name itself the first time; later the name with the next free number.
    mutating func claim(_ name: String) -> String {
        let key = Self.key(name)
        guard var number = nextNumbers[key] else {
            nextNumbers[key] = 1
            return name
        }
        var candidate: String
        repeat {
            candidate = FileName.numbered(name, Int(number))
            number += 1
        } while nextNumbers[Self.key(candidate)] != nil
        nextNumbers[key] = number
        nextNumbers[Self.key(candidate)] = 1
        return candidate
    }

    private static func key(_ name: String) -> Int {
        #if canImport(Darwin)
            // Names that differ by case only are one file there.
            return name.lowercased().hashValue
        #else
            return name.hashValue
        #endif
    }
}
