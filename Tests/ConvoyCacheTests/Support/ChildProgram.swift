// `CacheWorker` and compilers as child processes of tests.
import Foundation
import Testing

/// A child process, and what it has written.
final class ChildProgram {
    private static let boundSeconds = 120.0

    private let process = Process()
    private let endings: AsyncStream<Void>
    private let output: URL

    init(_ arguments: [String], program: URL? = nil, environment: [String: String] = [:]) throws {
        let (endings, end) = AsyncStream.makeStream(of: Void.self)
        self.endings = endings
        output = FileManager.default.temporaryDirectory.appending(path: "convoy-cache-output-\(UUID().uuidString)")
        try Data().write(to: output)
        process.executableURL = try program ?? Self.worker()
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
            .merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        let handle = try FileHandle(forWritingTo: output)
        (process.standardOutput, process.standardError) = (handle, handle)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        try? handle.close()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        try? FileManager.default.removeItem(at: output)
    }

    /// Both of its outputs.
    var text: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }

    /// Waits for its end; its exit status, or the signal that ended it.
    @discardableResult
    func ended() async -> Int32 {
        let identifier = process.processIdentifier
        let bound = DispatchWorkItem {
            Issue.record("a process took too long")
            kill(identifier, SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        for await _ in endings {}
        bound.cancel()
        return process.terminationStatus
    }

    /// It lies beside the test bundle, or some directories above what runs it.
    private static func worker() throws -> URL {
        var directory = URL(filePath: CommandLine.arguments[0]).absoluteURL
        while directory.path != "/" {
            directory.deleteLastPathComponent()
            let candidate = directory.appending(path: "CacheWorker", directoryHint: .notDirectory)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw CocoaError(.fileNoSuchFile)
    }
}

/// `Tests/DiskRecorder` as a library for `LD_PRELOAD`, which counts calls that change files, and kills at one of them.
struct CallKiller {
    private static let compiler = ["clang", "cc", "gcc"].compactMap { program(named: $0) }.first
    #if os(Linux)
        static let isUsable = compiler != nil
    #else
        static let isUsable = false
    #endif
    static let reason: Comment = "no C compiler in PATH, or no LD_PRELOAD: system calls cannot be counted"

    /// As the kernel names it.
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
        let compiling = try ChildProgram(
            ["-shared", "-fPIC", "-O1", "-o", library.path, source.path, "-ldl", "-pthread"],
            program: compiler)
        #expect(await compiling.ended() == 0, "\(compiling.text)")
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

    /// How many calls were counted: entries have 21 bytes and a text, whose length is in the last four of them.
    func callCount() throws -> Int {
        let bytes = [UInt8](try Data(contentsOf: record))
        var (index, count) = (0, 0)
        while index + 21 <= bytes.count {
            // What was written to the standard output changes no file.
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
