// Counts locks and allocations with a library that the measured process loads.
import Foundation

/// Runs cases with the library of `CCounter` preloaded.
struct CallCounter {
    private let library: URL

    /// - Throws: if the library is not in the directory of this program.
    init() throws {
        guard let program = Bundle.main.executableURL else {
            throw BenchmarkError("the path of this program is unknown")
        }
        library = program.deletingLastPathComponent().appendingPathComponent("libConvoyBenchCounter.so")
        guard FileManager.default.fileExists(atPath: library.path) else {
            throw BenchmarkError(
                """
                \(library.path) does not exist, which `swift run` does not build: \
                run `swift build -c release --package-path Benchmarks` first
                """)
        }
    }

    /// Runs a case in a child process, and counts all calls of the child.
    func count(_ spec: CaseSpec, _ runner: Runner) throws -> CallCount {
        try URL.withTemporaryFile { file in
            let run = try runner.runChild(
                spec, environment: ["LD_PRELOAD": library.path, "CONVOY_BENCH_COUNTS": file.path])
            // The file has the layout of `convoy_bench_counts` in CCounter.h.
            let bytes = (try? Data(contentsOf: file)) ?? Data()
            guard bytes.count == 2 * MemoryLayout<Int64>.size else {
                throw BenchmarkError("the library that counts was not loaded, or could not write \(file.path)")
            }
            let counts = bytes.withUnsafeBytes { bytes in
                (0..<2).map { Int(bytes.loadUnaligned(fromByteOffset: $0 * MemoryLayout<Int64>.size, as: Int64.self)) }
            }
            return CallCount(calls: ["locks": counts[0], "allocations": counts[1]], run: run)
        }
    }
}
