// Runs this program again as a child process, with a time limit.
import Foundation
import Synchronization

/// A child process that runs a hidden subcommand.
///
/// The child ends with its parent, because the end of the parent closes the child's standard input.
struct ChildProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    /// Starts the child.
    ///
    /// - Parameters:
    ///   - launcher: a program with arguments that runs the child's command line, such as strace; empty for none.
    ///   - environment: variables besides those of this process.
    init(_ arguments: [String], under launcher: [String] = [], environment: [String: String] = [:]) throws {
        guard let executable = Bundle.main.executableURL else {
            throw BenchmarkError("the path of this program is unknown, so it cannot start itself again")
        }
        let command = launcher + [executable.path] + arguments
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { _, new in new }
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    /// The first line that the child writes; nil if the child ends before.
    func firstLine() -> String? {
        var bytes = Data()
        while let next = try? output.fileHandleForReading.read(upToCount: 1), !next.isEmpty, next[0] != 0x0A {
            bytes += next
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// The complete output of the child; returns when the child has ended.
    ///
    /// Blocks the thread, so that the parent uses no processor time during the measurement.
    ///
    /// - Throws: if the child fails, or is killed because it exceeds the limit.
    func output(withinSeconds limit: Int) throws -> String {
        let hasTimedOut = TimedOut()
        let identifier = process.processIdentifier
        let end = input.fileHandleForWriting
        let watchdog = DispatchWorkItem {
            hasTimedOut.set()
            kill(identifier, SIGKILL)
            // If a launcher was killed, its child continues and has the output pipe open. The end of standard input
            // ends that child.
            try? end.close()
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(limit), execute: watchdog)
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        watchdog.cancel()
        process.waitUntilExit()
        if hasTimedOut.isSet { throw BenchmarkError("it was ended after \(limit) s, the limit") }
        if process.terminationReason == .uncaughtSignal {
            throw BenchmarkError("it crashed with signal \(process.terminationStatus)")
        }
        guard process.terminationStatus == 0 else {
            throw BenchmarkError("it ended with status \(process.terminationStatus), see above")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Closes the standard input of the child, which ends the child, and waits for the end.
    func end() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    /// Called in the child: ends the process when standard input ends.
    static func endWithParent() {
        Thread.detachNewThread {
            var byte: UInt8 = 0
            while read(STDIN_FILENO, &byte, 1) > 0 {}
            leave(1)
        }
    }
}

/// A flag that the watchdog sets.
private final class TimedOut: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() { flag.store(true, ordering: .releasing) }
}
