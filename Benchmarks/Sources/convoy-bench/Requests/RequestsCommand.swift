// How many small requests a second, at what cost.
import ArgumentParser
import Convoy
import Foundation

/// `requests`: small GET requests over whole stacks.
struct RequestsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requests", abstract: "Small requests a second, CPU per request, peak memory.",
        discussion: """
            Subjects: convoy (a lazy batch), convoy-send (as many tasks as the concurrency, each awaiting send), \
            convoy-enqueue (enqueue with a handler that enqueues the next), urlsession (one ephemeral session, with a \
            delegate on its default queue), async-http-client (event loop futures), async-http-client-async (its async \
            functions in a task group).
            """)

    @Option(help: "What to get; without it, the ConvoyTesting server answers from a process of its own.")
    var url: String?

    @Option(help: "Requests in all.")
    var count = 10_000

    @Option(help: "Requests in flight.")
    var concurrency = 6

    @Option(help: "Convoy's transport: \(TransportName.allCases.map(\.rawValue).joined(separator: " or ")).")
    var transport = TransportName.automatic

    @Option(help: "Requests before the measurement.")
    var warmup = 500

    @Option(help: "Who is measured, separated by commas.")
    var subjects = "convoy,urlsession,async-http-client"

    @OptionGroup var common: CommonOptions

    func validate() throws {
        if count < 1 || concurrency < 1 || warmup < 0 {
            throw ValidationError("--count and --concurrency must be positive.")
        }
        if let unknown = names.first(where: { RequestSubject(rawValue: $0) == nil }) {
            throw ValidationError("There is no subject \(unknown).")
        }
    }

    private var names: [String] { subjects.split(separator: ",").map(String.init) }

    func run() async throws {
        let server = url == nil ? try ChildProcess(["serve"]) : nil
        defer { server?.end() }
        guard let text = url ?? server?.firstLine(), let target = URL(string: text) else {
            throw BenchmarkError(url == nil ? "the ConvoyTesting server did not start" : "--url is not a URL")
        }
        let bodyBytes = try await RequestManager().send(Request<Data>.get(target)).value.count
        let specs = names.map { subject in
            var spec = CaseSpec(benchmark: .requests, subject: subject, count: count)
            (spec.concurrency, spec.warmup, spec.transport) = (concurrency, warmup, transport)
            (spec.url, spec.bodyBytes) = (target, bodyBytes)
            return spec
        }
        let answering = server == nil ? text : "the ConvoyTesting server, which shares this machine's cores"
        var results = Runner(options: common).run(specs)
        for index in results.indices { results[index].server = server == nil ? text : "ConvoyTesting" }
        try Report(results, isJSON: common.json).print(
            heading: """
                \(count.figure) GET requests, \(concurrency) in flight, bodies of \(bodyBytes.figure) bytes, \
                median of \(common.rounds) round(s)
                server: \(answering)
                urlsession is delegate based, without cache and cookies
                """
        ) { table(results) }
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

/// Convoy's transports by name.
enum TransportName: String, Codable, CaseIterable, ExpressibleByArgument {
    case automatic
    case urlSession = "urlsession"
    #if os(Linux)
        case curl
    #endif

    /// The transport of that name.
    var choice: TransportChoice {
        switch self {
        case .automatic: .automatic
        case .urlSession: .urlSession
        #if os(Linux)
            case .curl: .custom(CurlTransport.shared)
        #endif
        }
    }
}
