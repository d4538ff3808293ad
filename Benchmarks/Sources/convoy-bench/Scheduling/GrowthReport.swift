// Measures each subject at a size and at a tenth of that size, to show how the cost grows.
import Foundation

/// The common part of `chain` and `fanout`.
struct GrowthReport {
    static let discussion = """
        The time runs from making the first operation to the callback of the last. Typed: each request is built from the \
        answer before. Plain: addDependency. Growth is the time per operation at the full size by that at a tenth: 1 is \
        linear, 10 quadratic. The peer is a bare OperationQueue with operations that do nothing.
        """

    let benchmark: CaseSpec.Benchmark
    let size: Int
    /// The size of the peer's graph.
    let peerSize: Int
    let common: CommonOptions

    func run(heading: String) throws {
        let specs = GraphSubject.allCases.flatMap { subject in
            let size = subject == .operationQueue ? peerSize : size
            return [size, size / 10].map { size in
                var spec = CaseSpec(benchmark: benchmark, subject: subject.rawValue, count: size)
                spec.concurrency = 16
                return spec
            }
        }
        let results = Runner(options: common).run(specs)
        try Report(results, isJSON: common.json).print(heading: heading) { table(results) }
    }

    private func table(_ results: [Measurement]) -> Table {
        var table = Table(
            [
                "subject", "size", "seconds", "us/op", "CPU us/op", "us/op at a tenth", "growth", "peak RSS",
                "errors", "us/op : peer",
            ])
        let pairs = stride(from: 0, to: results.count - 1, by: 2).map { (results[$0], results[$0 + 1]) }
        let peer = pairs.first { $0.0.subject == operationQueueSubject }?.0
        for (full, tenth) in pairs {
            table.add([
                full.subject, full.count.figure, full.seconds?.figure ?? "-", full.microsecondsEach?.figure ?? "-",
                full.cpuMicrosecondsPerRequest?.figure ?? "-", tenth.microsecondsEach?.figure ?? "-",
                ratio(full.microsecondsEach, to: tenth.microsecondsEach), full.peakRSSBytes?.mebibytes ?? "-",
                (full.errors + tenth.errors).figure, ratio(full.microsecondsEach, to: peer?.microsecondsEach),
            ])
        }
        return table
    }
}
