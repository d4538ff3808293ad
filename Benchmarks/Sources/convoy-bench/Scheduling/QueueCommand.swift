// The cost of a waiting operation, and the speed of enqueueing and draining many.
import ArgumentParser
import Foundation

/// `queue`: enqueue, drain and cancel many operations.
struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "Bytes and time per queued operation; enqueue, drain and cancelAll.",
        discussion: """
            Convoy's operations each carry a request with a URL of its own and one callback, over a stub transport. The \
            peer is a bare OperationQueue with operations that do nothing but call back.
            """)

    @Option(help: "Operations.")
    var count = 100_000

    @Option(help: "How many may run at once.")
    var concurrency = 16

    @OptionGroup var common: CommonOptions

    func validate() throws {
        if count < 1 || concurrency < 1 { throw ValidationError("--count and --concurrency must be positive.") }
    }

    func run() async throws {
        let specs = [CaseSpec.Benchmark.queue, .queueCancel].flatMap { benchmark in
            ["convoy", operationQueueSubject].map { subject in
                var spec = CaseSpec(benchmark: benchmark, subject: subject, count: count)
                spec.concurrency = concurrency
                return spec
            }
        }
        let names = ["queue-enqueue", "queue-drain", "queue-cancel", "queue-cancel-call"]
        let measured = Runner(options: common).run(specs)
        // If the case `queue` fails in every round, its measurement is named `queue`. The table shows it last.
        let results =
            names.flatMap { name in measured.filter { $0.benchmark == name } }
            + measured.filter { !names.contains($0.benchmark) }
        try Report(results, isJSON: common.json).print(
            heading: """
                \(count.figure) operations in a suspended queue, \(concurrency) at once, median of \(common.rounds) round(s)
                queue-cancel ends with the last callback, queue-cancel-call when cancelAll returns; a bare OperationQueue \
                calls back only once it is resumed, so there it is resumed after cancelAll
                """
        ) { table(results) }
    }

    private func table(_ results: [Measurement]) -> Table {
        var table = Table(
            [
                "benchmark", "subject", "seconds", "us/op", "CPU us/op", "heap bytes/op", "RSS bytes/op", "peak RSS",
                "errors", "time : peer", "heap : peer",
            ])
        for result in results {
            let peer = results.first { $0.benchmark == result.benchmark && $0.subject == operationQueueSubject }
            table.add([
                result.benchmark, result.subject, result.seconds?.figure ?? "-", result.microsecondsEach?.figure ?? "-",
                result.cpuMicrosecondsPerRequest?.figure ?? "-",
                result.bytesPerOperation.map { Int($0).figure } ?? "-",
                result.rssBytesPerOperation.map { Int($0).figure } ?? "-", result.peakRSSBytes?.mebibytes ?? "-",
                result.errors.figure, ratio(result.seconds, to: peer?.seconds),
                ratio(result.bytesPerOperation, to: peer?.bytesPerOperation),
            ])
        }
        return table
    }
}
