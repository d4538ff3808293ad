// Names of files with directories before them.
import Convoy
import Foundation

extension FileName {
    /// The name with the directories before it where each of them is safe; else the nearest safe name, without them.
    static func safePath(_ name: String) -> String {
        var parts = name.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false).map { String($0) }
        // As find(1) writes them.
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

/// A name cut at its last slash.
struct FilePath {
    /// The directories, with the slash behind them; empty where there are none.
    let prefix: String
    let last: String

    init(_ name: String) {
        let slash = name.utf8.lastIndex(of: UInt8(ascii: "/"))
        prefix = slash.map { String(name[...$0]) } ?? ""
        last = slash.map { String(name[name.utf8.index(after: $0)...]) } ?? name
    }

    /// Where the file is, for a directory that names are relative to.
    func directory(in directory: String) -> String {
        guard !prefix.isEmpty else { return directory }
        return prefix.hasPrefix("/") ? prefix : directory + "/" + prefix.dropLast()
    }
}

extension FetchItem {
    /// The name of its file, which the server or a number may have changed.
    func name(of file: URL) -> String { FilePath(fileName).prefix + file.lastPathComponent }
}
