// A child process that works on a store, and its output.
import Foundation
import Testing

/// The program `QueueWorker` of the package, with a limited lifetime.
final class WorkerProcess: Sendable {
    private static let boundSeconds = 900.0

    private let process = Process()
    private let output = Pipe()
    private let ends: AsyncStream<Void>

    init(_ arguments: [String], environment: [String: String] = [:]) throws {
        process.executableURL = try ChildProcess.program("QueueWorker")
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
            .merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        _ = fcntl(output.fileHandleForReading.fileDescriptor, F_SETFD, FD_CLOEXEC)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        self.ends = ends
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        try? output.fileHandleForWriting.close()
        let identifier = process.processIdentifier
        let bound = DispatchWorkItem { kill(identifier, SIGKILL) }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        Task { [ends] in
            for await _ in ends {}
            bound.cancel()
        }
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    func kill9() { kill(process.processIdentifier, SIGKILL) }

    /// All lines that the process prints.
    ///
    /// - Parameter body: called for each line as it arrives.
    func lines(_ body: @escaping @Sendable (String) -> Void = { _ in }) async -> [String] {
        let handle = output.fileHandleForReading
        // `read(upToCount:)` would wait for the complete count.
        return await offPool {
            var lines: [String] = []
            var rest = Data()
            while true {
                let data = handle.availableData
                guard !data.isEmpty else { break }
                rest += data
                let parts = rest.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
                for part in parts.dropLast() {
                    let line = String(decoding: part, as: UTF8.self)
                    body(line)
                    lines.append(line)
                }
                rest = Data(parts.last ?? Data())
            }
            return lines
        }
    }
}
