// The cost of requests that outlive the process.
import ArgumentParser
import Convoy
import Foundation

/// `durable`: adding, waiting and sending of jobs in a durable queue.
struct DurableCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "durable", abstract: "Jobs of a durable queue: added, waiting, sent; on SQLite and PostgreSQL.",
        discussion: """
            durable-list adds jobs in one transaction, durable-single each in its own, beside a loop over the system's \
            SQLite that commits the same rows (sqlite3). durable-waiting adds lists of 10,000 until --waiting jobs are \
            there, then durable-status counts them and durable-claim claims 256. durable-drain sends jobs that are there, \
            beside the same requests without a queue (convoy).

            Figures depend on how fast the disk syncs: name one with --directory; a file system in memory measures the \
            processor alone.
            """)

    @Option(help: "Jobs added in one transaction.")
    var count = 100_000

    @Option(help: "Jobs added one by one.")
    var singles = 5_000

    @Option(help: "Jobs that wait.")
    var waiting = 1_000_000

    @Option(help: "Jobs that are sent.")
    var drain = 20_000

    @Option(help: "The benchmarks that are run, without 'durable-', separated by commas.")
    var cases: CommaList<String> = ["list", "single", "waiting", "drain"]

    @Option(help: "Requests in flight.")
    var concurrency = 32

    @Option(help: "Where SQLite's files are; by default the directory for temporary files.")
    var directory: String?

    @Option(
        help: """
            postgres://user@host:port/database, of a role that may create databases: PostgreSQL is measured too. Needs \
            psql; the server syncs as it is configured.
            """)
    var postgres: String?

    @OptionGroup var server: ServerOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        if [count, singles, drain, concurrency].contains(where: { $0 < 1 }) || waiting < 256 {
            throw ValidationError("Counts and --concurrency must be positive, --waiting at least 256.")
        }
        if let unknown = cases.elements.first(where: { !["list", "single", "waiting", "drain"].contains($0) }) {
            throw ValidationError("There is no benchmark \(unknown); there are list, single, waiting and drain.")
        }
    }

    func run() async throws {
        try await server.withServer { url, name in
            let bodyBytes = try await RequestManager().send(Request<Data>.get(url)).value.count
            let results = Runner(options: common).run(specs(url, bodyBytes))
            try Report(results, isJSON: common.json).print(
                heading: """
                    Jobs of a durable queue, \(concurrency) requests in flight, median of \(common.rounds) round(s)
                    server: \(ServerOptions.describe(name))
                    """
            ) { table(results) }
        }
    }

    private func specs(_ url: URL, _ bodyBytes: Int) -> [CaseSpec] {
        var stores = [DurableSubject.sqlite]
        if postgres != nil { stores.append(.postgres) }
        let all: [(CaseSpec.Benchmark, [DurableSubject], Int)] = [
            (.durableList, stores, count), (.durableSingle, stores + [.bare], singles),
            (.durableWaiting, stores, waiting), (.durableDrain, stores + [.direct], drain),
        ]
        return all.filter { cases.elements.contains(String($0.0.rawValue.dropFirst("durable-".count))) }.flatMap {
            benchmark, subjects, count in
            subjects.map { subject in
                var spec = CaseSpec(benchmark: benchmark, subject: subject.rawValue, count: count)
                (spec.concurrency, spec.url, spec.bodyBytes) = (concurrency, url, bodyBytes)
                (spec.directory, spec.database) = (directory, postgres)
                return spec
            }
        }
    }

    private func table(_ results: [Measurement]) -> Table {
        var table = Table([
            "benchmark", "subject", "jobs", "seconds", "jobs/s", "CPU us/job", "disk", "peak RSS", "errors",
            "time : peer",
        ])
        for result in results {
            let peer = results.first {
                $0.benchmark == result.benchmark && ["sqlite3", "convoy"].contains($0.subject)
            }
            table.add([
                result.benchmark, result.subject, result.count.figure, result.seconds?.figure ?? "-",
                result.requestsPerSecond?.figure ?? "-", result.cpuMicrosecondsPerRequest?.figure ?? "-",
                result.bytes?.mebibytes ?? "-", result.peakRSSBytes?.mebibytes ?? "-", result.errors.figure,
                ratio(result.seconds, to: peer?.seconds),
            ])
        }
        return table
    }
}
