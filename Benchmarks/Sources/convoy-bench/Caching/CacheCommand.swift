// The savings and costs of a cache.
import ArgumentParser
import Convoy
import Foundation

/// `cache`: hits, misses, a large hit that is saved as a file, and a directory with many entries.
struct CacheCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache", abstract: "Requests that an HTTP cache answers, and what it costs the others.",
        discussion: """
            hit: bodies of 1 KiB that are stored, from memory and from disk, from one task and from 32. miss: bodies that \
            are not stored yet, beside the same requests without a cache (none). file: a stored body becomes a file, \
            beside cp. many: a directory with --entries entries is opened, hit, and stores what others have to go for.

            Name the file system with --directory: whether it clones files decides on file.
            """)

    @Option(help: "Requests of hit and miss.")
    var count = 20_000

    @Option(help: "Entries of many.")
    var entries = 1_000_000

    @Option(help: "Bytes of the large bodies.")
    var largeBytes = 1 << 30

    @Option(help: "The benchmarks that are run, separated by commas.")
    var cases: CommaList<String> = ["hit", "miss", "large", "file", "many"]

    @Option(help: "Where directories of caches are made; by default the directory for temporary files.")
    var directory: String?

    @OptionGroup var server: ServerOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        if [count, entries, largeBytes].contains(where: { $0 < 1 }) {
            throw ValidationError("Counts must be positive.")
        }
    }

    func run() async throws {
        var results: [Measurement] = []
        if cases.elements.contains("hit") { results += Runner(options: common).run(hits) }
        for (name, bytes) in [("miss", 1_024), ("large", largeBytes)] where cases.elements.contains(name) {
            let options = ["--body-bytes", "\(bytes)"] + (bytes > 1 << 20 ? ["--generated"] : [])
            results += try await server.withServer(options) { url, _ in
                Runner(options: common).run(misses(url, bytes))
            }
        }
        if cases.elements.contains("file") {
            let options = ["--body-bytes", "\(largeBytes)", "--generated"]
            results += try await server.withServer(options) { url, _ in
                let all = [CacheSubject.disk, .copy].map { subject in
                    var spec = spec(.cacheFile, subject, count: 1, bytes: largeBytes)
                    spec.url = url
                    return spec
                }
                return Runner(options: common).run(all)
            }
        }
        if cases.elements.contains("many") { results += try many() }
        try Report(results, isJSON: common.json).print(
            heading: "An HTTP cache, median of \(common.rounds) round(s)"
        ) { table(results) }
    }

    private var hits: [CaseSpec] {
        [CacheSubject.memory, .disk].flatMap { subject in
            [1, 32].map { spec(.cacheHit, subject, count: count, concurrency: $0) }
        }
    }

    private func misses(_ url: URL, _ bytes: Int) -> [CaseSpec] {
        let isLarge = bytes > 1 << 20
        return [CacheSubject.none, .memory, .disk].filter { !isLarge || $0 != .memory }.flatMap { subject in
            (isLarge ? [1] : [1, 32]).map { concurrency in
                var spec = spec(.cacheMiss, subject, count: isLarge ? 1 : count, concurrency: concurrency, bytes: bytes)
                spec.url = url
                return spec
            }
        }
    }

    /// Fills a cache in one child process and measures the cache in other processes.
    ///
    /// So the filling does not affect the measured memory.
    private func many() throws -> [Measurement] {
        let parent = directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        let place = parent.appending(path: "convoy-bench-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: place) }
        var filling = spec(.cacheFill, .disk, count: entries)
        filling.directory = place.path
        let filled = try Runner(options: common).runChild(filling)
        var opening = spec(.cacheMany, .disk, count: entries)
        opening.directory = place.path
        return filled + Runner(options: common).run([opening])
    }

    private func spec(
        _ benchmark: CaseSpec.Benchmark, _ subject: CacheSubject, count: Int, concurrency: Int = 1, bytes: Int = 1_024
    ) -> CaseSpec {
        var spec = CaseSpec(benchmark: benchmark, subject: subject.rawValue, count: count)
        (spec.concurrency, spec.bodyBytes, spec.directory) = (concurrency, bytes, directory)
        return spec
    }

    private func table(_ results: [Measurement]) -> Table {
        var table = Table([
            "benchmark", "subject", "count", "tasks", "seconds", "us each", "req/s", "CPU us/req", "peak RSS", "errors",
            "time : peer",
        ])
        for result in results {
            let peer = results.first {
                $0.benchmark == result.benchmark && $0.concurrency == result.concurrency && $0.count == result.count
                    && ["none", "cp"].contains($0.subject)
            }
            table.add([
                result.benchmark, result.subject, result.count.figure, result.concurrency?.figure ?? "-",
                result.seconds?.figure ?? "-", result.microsecondsEach?.figure ?? "-",
                result.requestsPerSecond?.figure ?? "-", result.cpuMicrosecondsPerRequest?.figure ?? "-",
                result.peakRSSBytes?.mebibytes ?? "-", result.errors.figure, ratio(result.seconds, to: peer?.seconds),
            ])
        }
        return table
    }
}
