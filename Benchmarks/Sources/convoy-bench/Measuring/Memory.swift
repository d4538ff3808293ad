// Memory of this process.
import CHeap
import Foundation

/// The memory use according to the system and the allocator; nil if unknown (only Linux reports all of it).
enum Memory {
    /// The resident set now.
    static var residentBytes: Int? { status("VmRSS:") }

    /// The largest resident set since ``resetPeak()``, or since the start of the process on systems without `/proc`.
    static var peakBytes: Int? {
        status("VmHWM:") ?? rusage.ofThisProcess?.peakBytes
    }

    /// The largest resident set of another process so far; nil if the process has ended, or if the system does not
    /// report the value.
    static func peakBytes(of process: Int32) -> Int? { status("VmHWM:", of: "\(process)") }

    /// Resets the peak (proc(5), clear_refs: 5).
    static func resetPeak() {
        guard let file = fopen("/proc/self/clear_refs", "w") else { return }
        fputs("5", file)
        fclose(file)
    }

    /// Bytes that are allocated on the heap, mapped blocks included.
    static var heapBytes: Int? {
        let bytes = convoy_bench_heap_bytes()
        return bytes < 0 ? nil : Int(bytes)
    }

    private static func status(_ key: String, of process: String = "self") -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8) else { return nil }
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(key) }) else { return nil }
        return line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }.map { $0 * 1_024 }
    }
}

extension rusage {
    /// The system's counters of this process; nil if unknown.
    static var ofThisProcess: rusage? {
        var usage = rusage()
        // Zero is RUSAGE_SELF, whose type differs from platform to platform.
        return getrusage(0, &usage) == 0 ? usage : nil
    }

    /// The system's counters of the ended children of this process.
    static var ofEndedChildren: rusage? {
        var usage = rusage()
        // -1 is RUSAGE_CHILDREN.
        return getrusage(-1, &usage) == 0 ? usage : nil
    }

    /// Processor time, user and system.
    var cpuSeconds: Double {
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(ru_utime) + seconds(ru_stime)
    }

    /// The largest resident set.
    var peakBytes: Int {
        #if canImport(Darwin)
            ru_maxrss
        #else
            ru_maxrss * 1_024
        #endif
    }
}
