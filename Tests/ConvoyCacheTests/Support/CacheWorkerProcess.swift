// `CacheWorker` as a child process of tests, and a library that kills it at a system call.
import Foundation
import Testing

extension ChildProcess {
    /// Starts `CacheWorker`.
    static func cacheWorker(_ arguments: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(program("CacheWorker"), arguments, environment: environment)
    }
}

/// `Tests/DiskRecorder` as a library for `LD_PRELOAD`.
///
/// It counts the calls that change files, and kills the process at one of them.
struct CallKiller {
    static let isUsable = PreloadedLibrary.isPossible
    static let reason: Comment = "no C compiler in PATH, or no LD_PRELOAD: system calls cannot be counted"

    /// The resolved path of the directory, as the kernel reports it.
    let root: URL
    private let library: String
    private let record: URL

    init(_ directory: TemporaryDirectory) throws {
        let resolved = directory.url.resolvingSymlinksInPath()
        root = resolved.appending(path: "cache", directoryHint: .notDirectory)
        library = try PreloadedLibrary.diskRecorder.path
        record = resolved.appending(path: "record")
    }

    /// The environment of a process whose calls are counted.
    var counting: [String: String] {
        ["LD_PRELOAD": library, "DISK_ROOT": root.path, "DISK_RECORD": record.path]
    }

    /// - Parameter moment: `2n` is right before call number n, `2n + 1` right after it.
    func killing(at moment: Int) -> [String: String] {
        let name = moment % 2 == 0 ? "DISK_KILL" : "DISK_KILL_AFTER"
        return ["LD_PRELOAD": library, "DISK_ROOT": root.path, name: "\(moment / 2)"]
    }

    /// The number of counted calls.
    ///
    /// A record has 21 bytes and a text. The last four bytes hold the length of the text.
    func callCount() throws -> Int {
        let bytes = [UInt8](try Data(contentsOf: record))
        var (index, count) = (0, 0)
        while index + 21 <= bytes.count {
            // A record of kind `A` is a write to standard output, which changes no file.
            if bytes[index] != UInt8(ascii: "A") { count += 1 }
            index += 21 + bytes[(index + 17)..<(index + 21)].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        return count
    }
}
