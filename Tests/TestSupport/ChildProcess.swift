import Foundation
import Testing

/// A child process with a time limit, and its output.
///
/// On Linux a fork server links each program of the package only once for all tests.
package final class ChildProcess {
    package struct Ending: Sendable {
        package let status: Int32
        package let isSignalled: Bool
    }

    private static let boundSeconds = 120.0

    package let files: TemporaryDirectory
    private let process: any RunningProcess
    private let endings: AsyncStream<Void>

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - environment: Variables in addition to those of the tests; nil removes a variable.
    ///   - directory: The working directory; that of the tests by default.
    ///   - input: The standard input; empty by default.
    ///   - output: The standard output; by default a file, whose text is ``output``.
    ///   - errors: The standard error; by default a file, whose text is ``errors``.
    package init(
        _ program: URL, _ arguments: [String], environment: [String: String?] = [:], in directory: URL? = nil,
        input: Any? = nil, output: Any? = nil, errors: Any? = nil
    ) throws {
        files = try TemporaryDirectory()
        let (endings, end) = AsyncStream.makeStream(of: Void.self)
        self.endings = endings
        var variables = ProcessInfo.processInfo.environment
        variables["SWIFT_BACKTRACE"] = "enable=no"
        for (name, value) in environment { variables[name] = value }
        let streams = try [
            Stream(input, files.file("input"), isInput: true), Stream(output, files.file("output")),
            Stream(errors, files.file("errors")),
        ]
        process = try Self.start(program, arguments, variables, directory, streams.map(\.handle)) { end.finish() }
        for stream in streams { stream.close() }
    }

    /// Kills the child of a test that failed early.
    deinit { process.send(SIGKILL) }

    package var isRunning: Bool { process.isRunning }
    package var output: String { text("output") }
    package var errors: String { text("errors") }
    /// The lines of the output that are not empty.
    package var lines: [String] { output.split(separator: "\n").map(String.init) }

    package var text: String { output + errors }
    package var lineCount: Int { (try? Data(contentsOf: files.file("output")))?.count { $0 == 0x0A } ?? 0 }

    package func send(_ signal: Int32) { process.send(signal) }

    /// Waits until the process ends; after `boundSeconds`, kills it and records an issue.
    @discardableResult
    package func ended(sourceLocation: SourceLocation = #_sourceLocation) async -> Ending {
        let bound = DispatchWorkItem { [process] in
            Issue.record("a process took too long", sourceLocation: sourceLocation)
            process.send(SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        for await _ in endings {}
        bound.cancel()
        return process.ending
    }

    /// The program of a target, which is beside the test bundle or in a directory above it.
    ///
    /// A program in the directory that `CONVOY_PROGRAMS` names comes first: the shipped one, for example.
    package static func program(_ name: String) throws -> URL {
        if let shipped = ProcessInfo.processInfo.environment["CONVOY_PROGRAMS"] {
            let candidate = URL(filePath: shipped, directoryHint: .isDirectory).appending(path: name)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
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

    private static func start(
        _ program: URL, _ arguments: [String], _ environment: [String: String], _ directory: URL?,
        _ streams: [FileHandle], onEnd: @escaping @Sendable () -> Void
    ) throws -> any RunningProcess {
        #if os(Linux)
            if program.deletingLastPathComponent().path == TemporaryDirectory.products.path,
                let forked = ForkServer.start(
                    program, arguments, environment, directory, streams: streams.map(\.fileDescriptor))
            {
                forked.onEnd(onEnd)
                return forked
            }
        #endif
        let process = Process()
        (process.executableURL, process.arguments, process.environment) = (program, arguments, environment)
        if let directory { process.currentDirectoryURL = directory }
        process.standardInput = streams[0]
        process.standardOutput = streams[1]
        process.standardError = streams[2]
        process.terminationHandler = { _ in onEnd() }
        try process.run()
        return process
    }

    private func text(_ name: String) -> String {
        (try? String(contentsOf: files.file(name), encoding: .utf8)) ?? ""
    }

    private struct Stream {
        let handle: FileHandle
        /// Whether only the child needs the descriptor.
        private let isClosed: Bool

        /// - Parameter given: a pipe or a file. Nil means a new file for output, and `/dev/null` for input.
        init(_ given: Any?, _ file: URL, isInput: Bool = false) throws {
            switch given {
            case let pipe as Pipe:
                (handle, isClosed) = (isInput ? pipe.fileHandleForReading : pipe.fileHandleForWriting, true)
            case let given as FileHandle: (handle, isClosed) = (given, false)
            default:
                if !isInput { try Data().write(to: file) }
                handle =
                    isInput
                    ? try FileHandle(forReadingFrom: URL(filePath: "/dev/null")) : try FileHandle(forWritingTo: file)
                isClosed = true
            }
            // Other children must not inherit the descriptor.
            _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }

        func close() { if isClosed { try? handle.close() } }
    }
}

protocol RunningProcess: Sendable {
    var isRunning: Bool { get }
    /// How the process ended; meaningless while it runs.
    var ending: ChildProcess.Ending { get }

    func send(_ signal: Int32)
}

extension Process: RunningProcess {
    var ending: ChildProcess.Ending {
        ChildProcess.Ending(status: terminationStatus, isSignalled: terminationReason == .uncaughtSignal)
    }

    func send(_ signal: Int32) { if isRunning { kill(processIdentifier, signal) } }
}
