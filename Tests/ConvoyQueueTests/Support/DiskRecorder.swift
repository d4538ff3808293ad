// A library that records the file changes of a child process, or kills it at one.
import Foundation
import Testing

/// Preloads `Tests/DiskRecorder` into child processes.
///
/// The library records their changes in one directory, makes one of them fail, or kills the process at one. The library
/// is compiled by the first of clang, cc and gcc in PATH.
final class DiskRecorder {
    static let isUsable = PreloadedLibrary.isPossible
    static let reason: Comment = "no C compiler in PATH, or no LD_PRELOAD: system calls cannot be recorded"

    /// The recorded directory, initially empty.
    let root: URL
    private let place: StorePlace
    private let library: String
    private let recordFile: URL

    init() throws {
        place = try StorePlace()
        // The path as the kernel names it.
        let directory = place.directory.resolvingSymlinksInPath()
        root = directory.appending(path: "disk", directoryHint: .notDirectory)
        library = try PreloadedLibrary.diskRecorder.path
        recordFile = directory.appending(path: "record")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
    }

    var file: URL { root.appending(path: "jobs.db") }

    /// The environment of a child process.
    ///
    /// - Parameter moment: when the process is killed: `2n` directly before call number n, `2n + 1` directly after
    ///   it; nil for never.
    func environment(killedAt moment: Int? = nil) -> [String: String] {
        var environment = ["LD_PRELOAD": library, "DISK_ROOT": root.path]
        guard let moment else { return environment.merging(["DISK_RECORD": recordFile.path]) { $1 } }
        environment[moment % 2 == 0 ? "DISK_KILL" : "DISK_KILL_AFTER"] = "\(moment / 2)"
        return environment
    }

    /// The environment of a child process in which one call fails.
    func environment(failingAt call: Int, with number: Int32) -> [String: String] {
        environment(killedAt: 0).merging(["DISK_FAIL": "\(call)", "DISK_ERRNO": "\(number)"]) { $1 }
    }

    /// All changes so far of all children, in order.
    func changes() throws -> [DiskChange] { DiskChange.all(in: try Data(contentsOf: recordFile)) }

    /// Empties the directory.
    func clear() throws {
        try FileManager.default.removeItem(at: root)
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
    }
}
