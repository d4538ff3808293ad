// This program once more, as a child, with a bound on its time.
import Foundation
import Synchronization

/// A child that runs a hidden subcommand and ends with its parent, because its standard input does.
struct ChildProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    /// Starts the child.
    ///
    /// - Parameters:
    ///   - launcher: a program, and its arguments, that is given the child's command line and runs it.
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

    /// The first line the child writes; nil when it ends without one.
    func firstLine() -> String? {
        var bytes = Data()
        while let next = try? output.fileHandleForReading.read(upToCount: 1), !next.isEmpty, next[0] != 0x0A {
            bytes += next
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// Everything the child writes, when it has ended.
    ///
    /// Blocks the thread: the parent has nothing else to do, and is not to take processor time from its child.
    ///
    /// - Throws: when it did not end well, or not within the limit; then it has been killed.
    func output(withinSeconds limit: Int) throws -> String {
        let hasTimedOut = TimedOut()
        let identifier = process.processIdentifier
        let end = input.fileHandleForWriting
        let watchdog = DispatchWorkItem {
            hasTimedOut.set()
            kill(identifier, SIGKILL)
            // A launcher's child lives on without it, and holds the other end of the pipe that is read here.
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

    /// Lets a child go that runs until its standard input ends.
    func end() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    /// In the child: ends this process when its standard input ends.
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
