// Counts system calls with strace.
import Foundation

/// Runs cases under strace.
struct SystemCallTracer {
    private let path: String

    /// - Throws: if strace is not installed, or may not trace here, as in many containers.
    init() throws {
        guard let path = ProgramRun.path(of: "strace") else { throw BenchmarkError("strace is not installed") }
        self.path = path
        let attempt = Process()
        attempt.executableURL = URL(fileURLWithPath: path)
        attempt.arguments = Self.arguments(summary: "/dev/null") + ["true"]
        attempt.standardError = FileHandle.nullDevice
        try attempt.run()
        attempt.waitUntilExit()
        guard attempt.terminationStatus == 0 else { throw BenchmarkError("strace is not allowed to trace here") }
    }

    private static func arguments(summary: String) -> [String] { ["-f", "-qq", "-c", "-o", summary] }

    /// Runs a case in a child process under strace, and counts all system calls of the child.
    func count(_ spec: CaseSpec, _ runner: Runner) throws -> CallCount {
        try URL.withTemporaryFile { file in
            let run = try runner.runChild(spec, under: [path] + Self.arguments(summary: file.path))
            let calls = Self.calls(in: try String(contentsOf: file, encoding: .utf8))
            guard !calls.isEmpty else { throw BenchmarkError("strace has counted nothing") }
            return CallCount(calls: calls, run: run)
        }
    }

    /// Parses the summary of strace: rows of "% time, seconds, usecs/call, calls, errors (or nothing), syscall", and a
    /// total.
    private static func calls(in summary: String) -> [String: Int] {
        var calls: [String: Int] = [:]
        for line in summary.split(separator: "\n") {
            let columns = line.split(separator: " ")
            guard columns.count >= 5, let name = columns.last, name != "total", let count = Int(columns[3]) else {
                continue
            }
            calls[String(name), default: 0] += count
        }
        return calls
    }
}
