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
    private static let compiler = ["clang", "cc", "gcc"].compactMap { program(named: $0) }.first
    #if os(Linux)
        static let isUsable = compiler != nil
    #else
        static let isUsable = false
    #endif
    static let reason: Comment = "no C compiler in PATH, or no LD_PRELOAD: system calls cannot be counted"

    /// The resolved path of the directory, as the kernel reports it.
    let root: URL
    private let library: URL
    private let record: URL

    init(_ directory: TemporaryDirectory) async throws {
        let resolved = directory.url.resolvingSymlinksInPath()
        root = resolved.appending(path: "cache", directoryHint: .notDirectory)
        library = resolved.appending(path: "recorder.so")
        record = resolved.appending(path: "record")
        let source = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "DiskRecorder/DiskRecorder.c")
        let compiler = try #require(Self.compiler)
        let compiling = try ChildProcess(
            compiler, ["-shared", "-fPIC", "-O1", "-o", library.path, source.path, "-ldl", "-pthread"])
        #expect(await compiling.ended().status == 0, "\(compiling.text)")
    }

    /// The environment of a process whose calls are counted.
    var counting: [String: String] {
        ["LD_PRELOAD": library.path, "DISK_ROOT": root.path, "DISK_RECORD": record.path]
    }

    /// - Parameter moment: `2n` is right before call number n, `2n + 1` right after it.
    func killing(at moment: Int) -> [String: String] {
        let name = moment % 2 == 0 ? "DISK_KILL" : "DISK_KILL_AFTER"
        return ["LD_PRELOAD": library.path, "DISK_ROOT": root.path, name: "\(moment / 2)"]
    }

    /// The number of counted calls.
    ///
    /// A record has 21 bytes and a text. The last four bytes hold the length of the text.
    func callCount() throws -> Int {
        let bytes = [UInt8](try Data(contentsOf: record))
        var (index, count) = (0, 0)
        while index + 21 <= bytes.count {
            // A write to the standard output changes no file.
            if bytes[index] != UInt8(ascii: "A") { count += 1 }
            index += 21 + bytes[(index + 17)..<(index + 21)].reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        return count
    }

    private static func program(named name: String) -> URL? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .map { URL(filePath: String($0)).appending(path: name) }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
