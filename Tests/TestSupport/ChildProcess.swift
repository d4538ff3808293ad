// Programs as child processes of tests.
import Foundation
import Testing

/// A child process with a time limit, and its output.
package final class ChildProcess {
    /// The end of a process.
    package struct Ending {
        /// The exit status, or the signal that ended it.
        package let status: Int32
        package let isSignalled: Bool
    }

    private static let boundSeconds = 120.0

    package let files: TemporaryDirectory
    private let process = Process()
    private let endings: AsyncStream<Void>

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - environment: Variables in addition to those of the tests.
    ///   - input: The standard input; empty by default.
    ///   - output: The standard output; by default a file, whose text is ``output``.
    ///   - errors: The standard error; by default a file, whose text is ``errors``.
    package init(
        _ program: URL, _ arguments: [String], environment: [String: String] = [:], input: Any? = nil,
        output: Any? = nil, errors: Any? = nil
    ) throws {
        files = try TemporaryDirectory()
        let (endings, end) = AsyncStream.makeStream(of: Void.self)
        self.endings = endings
        process.executableURL = program
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
            .merging(environment) { $1 }
        let handles = try (
            output: output == nil ? Self.file(files.file("output")) : nil,
            errors: errors == nil ? Self.file(files.file("errors")) : nil
        )
        process.standardInput = input ?? FileHandle.nullDevice
        process.standardOutput = output ?? handles.output
        process.standardError = errors ?? handles.errors
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        try? handles.output?.close()
        try? handles.errors?.close()
    }

    /// Kills the child of a test that failed early.
    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    package var isRunning: Bool { process.isRunning }
    package var output: String { text("output") }
    package var errors: String { text("errors") }
    /// The lines of the output that are not empty.
    package var lines: [String] { output.split(separator: "\n").map(String.init) }

    /// The texts of both outputs.
    package var text: String { output + errors }
    package var lineCount: Int { (try? Data(contentsOf: files.file("output")))?.count { $0 == 0x0A } ?? 0 }

    package func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Waits for the end.
    ///
    /// Kills a child that takes too long and records an issue.
    @discardableResult
    package func ended(sourceLocation: SourceLocation = #_sourceLocation) async -> Ending {
        let identifier = process.processIdentifier
        let bound = DispatchWorkItem {
            Issue.record("a process took too long", sourceLocation: sourceLocation)
            kill(identifier, SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        for await _ in endings {}
        bound.cancel()
        return Ending(
            status: process.terminationStatus, isSignalled: process.terminationReason == .uncaughtSignal)
    }

    /// The program of a target, which is beside the test bundle or in a directory above it.
    package static func program(_ name: String) throws -> URL {
        var directory = URL(filePath: CommandLine.arguments[0]).absoluteURL
        while directory.path != "/" {
            directory.deleteLastPathComponent()
            let candidate = directory.appending(path: name, directoryHint: .notDirectory)
            var isDirectory: ObjCBool = false
            let isThere = FileManager.default.fileExists(atPath: candidate.path, isDirectory: &isDirectory)
            if isThere, !isDirectory.boolValue { return candidate }
        }
        throw CocoaError(.fileNoSuchFile)
    }

    private func text(_ name: String) -> String {
        (try? String(contentsOf: files.file(name), encoding: .utf8)) ?? ""
    }

    private static func file(_ file: URL) throws -> FileHandle {
        try Data().write(to: file)
        let handle = try FileHandle(forWritingTo: file)
        // Other children must not inherit the descriptor.
        _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        return handle
    }
}
