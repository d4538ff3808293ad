// The common options of the benchmarks of small requests.
import ArgumentParser
import Convoy
import Foundation

/// Options of `requests` and `cost`.
struct RequestOptions: ParsableArguments {
    @OptionGroup var server: ServerOptions

    @Option(help: "Requests in flight.")
    var concurrency = 6

    @Option(help: "Convoy's transport: \(TransportName.allCases.map(\.rawValue).joined(separator: " or ")).")
    var transport = TransportName.automatic

    @Option(help: "Requests before the measurement.")
    var warmup = 500

    func validate() throws {
        if concurrency < 1 || warmup < 0 {
            throw ValidationError("--concurrency must be positive, --warmup not negative.")
        }
    }

    /// The subjects that a list names.
    static func subjects(_ list: String) throws -> [RequestSubject] {
        try list.split(separator: ",").map { name in
            guard let subject = RequestSubject(rawValue: String(name)) else {
                let names = RequestSubject.allCases.map(\.rawValue).joined(separator: ", ")
                throw ValidationError("There is no subject \(name); there are \(names).")
            }
            return subject
        }
    }

    /// A case for each subject, after a request that determines the size of the body.
    func specs(
        _ benchmark: CaseSpec.Benchmark, _ subjects: [RequestSubject], count: Int, _ url: URL
    ) async throws -> [CaseSpec] {
        let bodyBytes = try await RequestManager().send(Request<Data>.get(url)).value.count
        return subjects.map { subject in
            var spec = CaseSpec(benchmark: benchmark, subject: subject.rawValue, count: count)
            (spec.concurrency, spec.warmup, spec.transport) = (concurrency, warmup, transport)
            (spec.url, spec.bodyBytes) = (url, bodyBytes)
            return spec
        }
    }
}

/// Convoy's transports by name.
enum TransportName: String, Codable, CaseIterable, ExpressibleByArgument {
    case automatic
    case urlSession = "urlsession"
    #if os(Linux)
        case curl
    #endif

    /// The transport with this name.
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
