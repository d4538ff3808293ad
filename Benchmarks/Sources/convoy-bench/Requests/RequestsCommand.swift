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
    var subjects = "convoy,urlsession,async-http-client"

    @OptionGroup var requests: RequestOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        if count < 1 { throw ValidationError("--count must be positive.") }
        _ = try RequestOptions.subjects(subjects)
    }

    func run() async throws {
        let subjects = try RequestOptions.subjects(subjects)
        try await requests.server.withServer { url, server in
            let specs = try await requests.specs(.requests, subjects, count: count, url)
            var results = Runner(options: common).run(specs)
            for index in results.indices { results[index].server = server }
            try Report(results, isJSON: common.json).print(
                heading: """
                    \(count.figure) GET requests, \(requests.concurrency) in flight, bodies of \
                    \(specs.first?.bodyBytes.figure ?? "-") bytes, median of \(common.rounds) round(s)
                    server: \(ServerOptions.describe(server))
                    urlsession is delegate based, without cache and cookies
                    """
            ) { table(results) }
        }
    }

    private func table(_ results: [Measurement]) -> Table {
        let peers = results.filter { !$0.subject.hasPrefix("convoy") }
        var table = Table(
            ["subject", "seconds", "req/s", "CPU us/req", "MB/s", "peak RSS", "errors"]
                + peers.map { "req/s : \($0.subject)" })
        for result in results {
            table.add(
                [
                    result.subject, result.seconds?.figure ?? "-", result.requestsPerSecond?.figure ?? "-",
                    result.cpuMicrosecondsPerRequest?.figure ?? "-",
                    result.bytesPerSecond.map { ($0 / 1e6).figure } ?? "-",
                    result.peakRSSBytes?.mebibytes ?? "-", result.errors.figure,
                ] + peers.map { ratio(result.requestsPerSecond, to: $0.requestsPerSecond) })
        }
        return table
    }
}
