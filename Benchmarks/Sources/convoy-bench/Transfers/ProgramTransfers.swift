// curl and aria2c: their command lines, and the cost of running them.
import Foundation

extension TransferSubject {
    /// The arguments for saving a body: without the user's configuration, and with a time limit.
    func savingArguments(_ url: URL, _ file: URL, limitSeconds: Int) -> [String] {
        guard self == .aria2c else {
            return ["-q", "-s", "-S", "-f", "-m", "\(limitSeconds)", "-o", file.path, url.absoluteString]
        }
        // Without preallocation, aria2c writes each byte once, as the other subjects do.
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

/// The measured run of a program, from its start to its end.
struct ProgramRun {
    let reading: Stopwatch.Reading
    /// The cause of a failure; nil after a success.
    let defect: String?

    /// The path of a program in PATH; nil if the program is not installed.
    static func path(of name: String) -> String? {
        let directories = ProcessInfo.processInfo.environment["PATH"] ?? ""
        return directories.split(separator: ":").map { "\($0)/\(name)" }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Runs a program to its end.
    ///
    /// No other child process may end while the program runs, because its processor time would be counted.
    init(_ name: String, _ arguments: [String]) throws {
        guard let path = Self.path(of: name) else { throw BenchmarkError("\(name) is not installed") }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        // Standard output is reserved for the measurements that the parent process reads.
        process.standardOutput = FileHandle.standardError
        let hasEnded = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in hasEnded.signal() }
        let cpuAtStart = rusage.ofEndedChildren?.cpuSeconds ?? 0
        let start = ContinuousClock.now
        try process.run()
        // On Linux the peak in rusage is at least the resident set of the process that forked, so /proc is read
        // instead.
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
