// `QueueProgram` as a child process of a test.
import Foundation
import Testing

/// The program of these tests as a child process.
final class QueueProcess {
    private static let boundSeconds = 120.0

    private let process = Process()
    private let endings: AsyncStream<Void>
    private let file: URL
    private let errorFile: URL

    /// - Parameters:
    ///   - program: the program; `QueueProgram` by default.
    ///   - environment: variables in addition to those of the tests.
    ///   - limit: the maximum size of its files in blocks of the shell; nil for no limit.
    init(
        _ arguments: [String], program: URL? = nil, environment: [String: String] = [:], fileBlocks limit: Int? = nil
    ) throws {
        let (endings, end) = AsyncStream.makeStream(of: Void.self)
        self.endings = endings
        file = FileManager.default.temporaryDirectory.appending(path: "convoy-queue-output-\(UUID().uuidString)")
        errorFile = file.appendingPathExtension("errors")
        for file in [file, errorFile] { try Data().write(to: file) }
        let program = try program ?? Self.executable()
        if let limit {
            let script = "trap '' XFSZ; ulimit -f \(limit); exec \"$0\" \"$@\""
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", script, program.path] + arguments
        } else {
            process.executableURL = program
            process.arguments = arguments
        }
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
            .merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        let outputs = [try FileHandle(forWritingTo: file), try FileHandle(forWritingTo: errorFile)]
        (process.standardOutput, process.standardError) = (outputs[0], outputs[1])
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        // `Process.run` of corelibs is not used, because it crashes with more than about 1,300 descriptors.
        for output in outputs { try? output.close() }
    }

    deinit {
        if process.isRunning { kill() }
        for file in [file, errorFile] { try? FileManager.default.removeItem(at: file) }
    }

    /// Its output on standard error.
    var errors: String { (try? String(contentsOf: errorFile, encoding: .utf8)) ?? "" }

    /// Its lines on standard output.
    var lines: [String] {
        String(decoding: (try? Data(contentsOf: file)) ?? Data(), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    var isOver: Bool { !process.isRunning }
    var lineCount: Int { (try? Data(contentsOf: file))?.count { $0 == 0x0A } ?? 0 }

    func kill() { Foundation.kill(process.processIdentifier, SIGKILL) }

    /// Waits for its end.
    ///
    /// Returns its exit status, or the signal that ended it.
    @discardableResult
    func ended() async -> Int32 {
        let identifier = process.processIdentifier
        let bound = DispatchWorkItem {
            Issue.record("a process took too long")
            Foundation.kill(identifier, SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        for await _ in endings {}
        bound.cancel()
        return process.terminationStatus
    }

    /// The program is beside the test bundle, or in a parent directory of the running executable.
    static func executable() throws -> URL {
        var directory = URL(filePath: CommandLine.arguments[0]).absoluteURL
        while directory.path != "/" {
            directory.deleteLastPathComponent()
            let candidate = directory.appending(path: "QueueProgram", directoryHint: .notDirectory)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw CocoaError(.fileNoSuchFile)
    }
}
