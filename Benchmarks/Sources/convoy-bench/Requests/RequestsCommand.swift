// The rate and the cost of small requests.
import ArgumentParser
import Foundation

/// `requests`: small GET requests with complete HTTP clients.
struct RequestsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requests", abstract: "Small requests a second, CPU per request, peak memory.",
        discussion: """
            Subjects: \(RequestSubject.descriptions)
            """)

    @Option(help: "Requests in all.")
    var count = 10_000

    @Option(help: "The subjects that are measured, separated by commas.")
    var subjects: CommaList<RequestSubject> = [.convoy, .urlSession, .asyncHTTPClient]

    @OptionGroup var requests: RequestOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        if count < 1 { throw ValidationError("--count must be positive.") }
    }

    func run() async throws {
        try await requests.server.withServer { url, server in
            let specs = try await requests.specs(.requests, subjects.elements, count: count, url)
            var results = Runner(options: common).run(specs)
            for index in results.indices { results[index].server = server }
            try Report(results, isJSON: common.json).print(
                heading: """
                    \(count.figure) GET requests, bodies of \(specs.first?.bodyBytes.figure ?? "-") bytes, median of \
                    \(common.rounds) round(s)
                    server: \(ServerOptions.describe(server))
                    """
            ) { table(results) }
        }
    }

    private func table(_ results: [Measurement]) -> Table {
        let peers = subjects.elements.map(\.rawValue).filter { !$0.hasPrefix("convoy") }
        var table = Table(
            ["subject", "HTTP", "in flight", "seconds", "req/s", "CPU us/req", "MB/s", "peak RSS", "errors"]
                + peers.map { "req/s : \($0)" })
        for result in results {
            table.add(
                [
                    result.subject, result.http ?? "-", result.concurrency?.figure ?? "-",
                    result.seconds?.figure ?? "-", result.requestsPerSecond?.figure ?? "-",
                    result.cpuMicrosecondsPerRequest?.figure ?? "-",
                    result.bytesPerSecond.map { ($0 / 1e6).figure } ?? "-",
                    result.peakRSSBytes?.mebibytes ?? "-", result.errors.figure,
                ] + peers.map { ratio(result.requestsPerSecond, to: results.peer($0, of: result)?.requestsPerSecond) })
        }
        return table
    }
}
