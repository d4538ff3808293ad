// curl and aria2c: their command lines, and the cost of running them.
import Foundation

extension TransferSubject {
    /// The arguments for saving a body: without the user's configuration, and with a time limit.
    func savingArguments(_ url: URL, _ file: URL, limitSeconds: Int) -> [String] {
        guard self == .aria2c else {
            return ["-q", "-s", "-S", "-f", "-m", "\(limitSeconds)", "-o", file.path, url.absoluteString]
        }
        // Without allocation it writes each byte once, as the others do.
        return [
            "--no-conf", "-q", "--file-allocation=none", "--stop=\(limitSeconds)", "-d",
            file.deletingLastPathComponent().path, "-o", file.lastPathComponent, url.absoluteString,
        ]
    }

    /// The arguments for sending a file with PUT.
    func sendingArguments(_ file: URL, _ url: URL, limitSeconds: Int) -> [String] {
        ["-q", "-s", "-S", "-f", "-m", "\(limitSeconds)", "-T", file.path, "-o", "/dev/null", url.absoluteString]
    }
}

/// A program, from its start to its end.
struct ProgramRun {
    let reading: Stopwatch.Reading
    /// The cause of a failure; nil after a success.
    let defect: String?

    /// Where a program is, looked for in PATH as a shell does; nil when it is not installed.
    static func path(of name: String) -> String? {
        let directories = ProcessInfo.processInfo.environment["PATH"] ?? ""
        return directories.split(separator: ":").map { "\($0)/\(name)" }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Runs a program to its end; no other child may end meanwhile.
    init(_ name: String, _ arguments: [String]) throws {
        guard let path = Self.path(of: name) else { throw BenchmarkError("\(name) is not installed") }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        // Standard output is this child's answer to its parent.
        process.standardOutput = FileHandle.standardError
        let hasEnded = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in hasEnded.signal() }
        let cpuAtStart = rusage.ofEndedChildren?.cpuSeconds ?? 0
        let start = ContinuousClock.now
        try process.run()
        // The peak of rusage is useless on Linux: it is at least the resident set of the process that forked.
        var peak: Int?
        while hasEnded.wait(timeout: .now() + .milliseconds(5)) == .timedOut {
            peak = Memory.peakBytes(of: process.processIdentifier) ?? peak
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        process.waitUntilExit()
        let usage = rusage.ofEndedChildren
        reading = Stopwatch.Reading(
            seconds: seconds, cpuSeconds: (usage?.cpuSeconds ?? 0) - cpuAtStart, peakRSSBytes: peak ?? usage?.peakBytes,
            peakRSSGrowthBytes: nil)
        let ending = process.terminationReason == .exit ? "status" : "signal"
        defect = process.terminationStatus == 0 ? nil : "\(name) ended with \(ending) \(process.terminationStatus)"
    }
}
