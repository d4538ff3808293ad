// File names with directories.
import Convoy
import Foundation

extension FileName {
    /// The name with its directories if each part is safe.
    ///
    /// Otherwise a safe name without directories.
    static func safePath(_ name: String) -> String {
        var parts = name.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false).map { String($0) }
        // find(1) prints `./` before names, so it is removed.
        while parts.count > 1, parts.first == "." { parts.removeFirst() }
        let isSafe = parts.allSatisfy { $0.utf8.elementsEqual(safe($0).utf8) }
        return isSafe ? parts.joined(separator: "/") : safe(name)
    }

    /// The name with a number before its extension, in the same directory.
    static func numberedPath(_ name: String, _ number: Int) -> String {
        let path = FilePath(name)
        return path.prefix + numbered(path.last, number)
    }
}

/// A name split at its last slash.
struct FilePath {
    /// The directories including the final slash; empty without directories.
    let prefix: String
    let last: String

    init(_ name: String) {
        let slash = name.utf8.lastIndex(of: UInt8(ascii: "/"))
        prefix = slash.map { String(name[...$0]) } ?? ""
        last = slash.map { String(name[name.utf8.index(after: $0)...]) } ?? name
    }

    /// The directory of the file; `directory` is the base of a relative name.
    func directory(in directory: String) -> String {
        guard !prefix.isEmpty else { return directory }
        return prefix.hasPrefix("/") ? prefix : directory + "/" + prefix.dropLast()
    }
}

extension FetchItem {
    /// The name of the written file, which the server or a number may have changed.
    func name(of file: URL) -> String { FilePath(fileName).prefix + file.lastPathComponent }
}
