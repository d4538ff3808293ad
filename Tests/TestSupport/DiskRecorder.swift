import Foundation
import Testing

/// One entry of the record that `Tests/DiskRecorder` writes.
///
/// Paths are relative to the recorded directory.
package enum DiskChange: Equatable {
    case create(String, file: UInt64)
    case write(file: UInt64, offset: Int, Data)
    case truncate(file: UInt64, size: Int)
    case sync(file: UInt64)
    case syncDirectory(String)
    case makeDirectory(String)
    case rename(String, to: String)
    case link(String, to: String)
    case unlink(String)
    /// A line that the process printed; it promises that earlier changes are durable.
    case said(String)

    package static func all(in record: Data) -> [DiskChange] {
        var (changes, rest) = ([DiskChange](), record[...])
        while rest.count >= 21, let kind = rest.first {
            let numbers = Array(rest.dropFirst().prefix(20))
            func number(_ range: Range<Int>) -> UInt64 { numbers[range].reversed().reduce(0) { $0 << 8 | UInt64($1) } }
            let (file, offset, length) = (number(0..<8), Int(number(8..<16)), Int(number(16..<20)))
            let bytes = Data(rest.dropFirst(21).prefix(length))
            guard bytes.count == length else { break }
            rest = rest.dropFirst(21 + length)
            let text = String(decoding: bytes, as: UTF8.self)
            let names = text.split(separator: "\0").map(String.init)
            switch UnicodeScalar(kind) {
            case "C": changes.append(.create(text, file: file))
            case "W": changes.append(.write(file: file, offset: offset, bytes))
            case "T": changes.append(.truncate(file: file, size: offset))
            case "S": changes.append(.sync(file: file))
            case "D": changes.append(.syncDirectory(text))
            case "M": changes.append(.makeDirectory(text))
            case "U": changes.append(.unlink(text))
            case "A": changes.append(.said(text))
            case "R" where names.count == 2: changes.append(.rename(names[0], to: names[1]))
            case "L" where names.count == 2: changes.append(.link(names[0], to: names[1]))
            default: return changes
            }
        }
        return changes
    }
}

/// Preloads `Tests/DiskRecorder` into child processes.
///
/// The library records their changes in one directory, makes one of them fail, or kills the process at one. The library
/// is compiled by the first of clang, cc and gcc in PATH.
package final class DiskRecorder {
    package static let isUsable = PreloadedLibrary.isPossible
    package static let reason: Comment = "no C compiler in PATH, or no LD_PRELOAD: system calls cannot be recorded"

    /// The recorded directory, initially empty.
    package let root: URL
    private let directory: TemporaryDirectory
    private let library: String
    private let recordFile: URL

    package init() throws {
        directory = try TemporaryDirectory()
        // The path as the kernel names it.
        let place = directory.url.resolvingSymlinksInPath()
        root = place.appending(path: "disk", directoryHint: .notDirectory)
        library = try PreloadedLibrary.diskRecorder.path
        recordFile = place.appending(path: "record")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
    }

    package var file: URL { root.appending(path: "jobs.db") }

    /// The environment of a child process.
    ///
    /// - Parameter moment: when the process is killed: `2n` directly before call number n, `2n + 1` directly after
    ///   it; nil for never.
    package func environment(killedAt moment: Int? = nil) -> [String: String] {
        var environment = ["LD_PRELOAD": library, "DISK_ROOT": root.path]
        guard let moment else { return environment.merging(["DISK_RECORD": recordFile.path]) { $1 } }
        environment[moment % 2 == 0 ? "DISK_KILL" : "DISK_KILL_AFTER"] = "\(moment / 2)"
        return environment
    }

    /// The environment of a child process in which one call fails.
    package func environment(failingAt call: Int, with number: Int32) -> [String: String] {
        environment(killedAt: 0).merging(["DISK_FAIL": "\(call)", "DISK_ERRNO": "\(number)"]) { $1 }
    }

    /// All changes so far of all children, in order.
    package func changes() throws -> [DiskChange] { DiskChange.all(in: try Data(contentsOf: recordFile)) }

    package func clear() throws {
        try FileManager.default.removeItem(at: root)
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
    }

    package func callCount() throws -> Int { try changes().count { if case .said = $0 { false } else { true } } }
}
