// A million requests in constant memory.
import ArgumentParser
import Convoy
import Foundation

/// `million`: a lazy batch over a stub transport, without stored results.
struct MillionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "million", abstract: "Requests a second and memory of a lazy batch that keeps no results.")

    @Option(help: "Requests, each with a URL of its own.")
    var count = 1_000_000

    @Option(help: "How many may run at once.")
    var concurrency = 16

    @OptionGroup var common: CommonOptions

    func validate() throws {
        if count < 1 || concurrency < 1 { throw ValidationError("--count and --concurrency must be positive.") }
    }

    func run() async throws {
        var spec = CaseSpec(benchmark: .million, subject: "convoy", count: count)
        spec.concurrency = concurrency
        let results = Runner(options: common).run([spec])
        try Report(results, isJSON: common.json).print(
            heading: """
                \(count.figure) requests in a lazy batch over a stub transport, \(concurrency) at once, \
                median of \(common.rounds) round(s)
                """
        ) {
            var table = Table(["subject", "seconds", "req/s", "CPU us/req", "peak RSS", "RSS growth", "errors"])
            for result in results {
                table.add([
                    result.subject, result.seconds?.figure ?? "-", result.requestsPerSecond?.figure ?? "-",
                    result.cpuMicrosecondsPerRequest?.figure ?? "-", result.peakRSSBytes?.mebibytes ?? "-",
                    result.peakRSSGrowthBytes?.mebibytes ?? "-", result.errors.figure,
                ])
            }
            return table
        }
    }
}

/// Runs the batch.
func measureMillion(_ spec: CaseSpec) async -> Measurement {
    let manager = Stub.makeManager(limit: spec.concurrency)
    let tally = Tally()
    let watch = Stopwatch()
    let batch = manager.batch((0..<spec.count).lazy.map { Stub.request($0) }, keepsResults: false)
    await batch.finished()
    let reading = watch.read()
    let progress = batch.currentProgress
    for _ in 0..<progress.failedCount { tally.note("a request failed") }
    for _ in progress.finishedCount..<max(spec.count, progress.finishedCount) { tally.note("a request is missing") }
    if progress.download.completedBytes != Int64(2 * spec.count) {
        tally.note("\(progress.download.completedBytes) bytes were received")
    }
    var result = Measurement(spec)
    result.add(reading)
    result.add(tally)
    return result
}
