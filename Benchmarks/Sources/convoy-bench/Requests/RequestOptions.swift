// The common options of the benchmarks of small requests.
import ArgumentParser
import Convoy
import Foundation

/// Options of `requests` and `cost`.
struct RequestOptions: ParsableArguments {
    @OptionGroup var server: ServerOptions

    @Option(help: "Requests in flight; several numbers are separated by commas.")
    var concurrency: CommaList<Int> = [6]

    @Option(help: "Convoy's transport: \(TransportName.allCases.map(\.rawValue).joined(separator: " or ")).")
    var transport = TransportName.automatic

    @Option(help: "The PEM file of the trusted certificates of an https server; by default those of the system.")
    var cacert: String?

    @Option(help: "The versions of HTTP, separated by commas; by default HTTP/2 where an https server offers it.")
    var http: CommaList<HTTPVersion>?

    @Option(help: "Requests before the measurement.")
    var warmup = 500

    func validate() throws {
        if concurrency.elements.contains(where: { $0 < 1 }) || warmup < 0 {
            throw ValidationError("--concurrency must be positive, --warmup not negative.")
        }
    }

    /// A case for each version of HTTP, concurrency and subject, after requests that determine the size of the body.
    ///
    /// - Throws: if a subject does not support an option, or the server a version of HTTP.
    func specs(
        _ benchmark: CaseSpec.Benchmark, _ subjects: [RequestSubject], count: Int, _ url: URL
    ) async throws -> [CaseSpec] {
        let versions = http.map { $0.elements.map(Optional.some) } ?? [nil]
        if subjects.contains(.urlSession), cacert != nil || versions.contains(.http1) {
            throw ValidationError("urlsession supports neither --cacert nor --http 1.1; leave it out of --subjects.")
        }
        var specs: [CaseSpec] = []
        for version in versions {
            var spec = CaseSpec(benchmark: benchmark, subject: "", count: count)
            (spec.warmup, spec.transport) = (warmup, transport)
            (spec.url, spec.cacert, spec.http) = (url, cacert, version)
            let choice = try TransportChoice.connecting(with: spec.connectionOptions)
            let response = try await RequestManager(configuration: .init(transport: choice)).send(
                Request<Data>.get(url))
            spec.http = response.metrics.flatMap { HTTPVersion(rawValue: $0.httpVersion) }
            if let version, version != spec.http {
                throw BenchmarkError("\(url) does not answer with HTTP/\(version.rawValue)")
            }
            spec.bodyBytes = response.value.count
            for width in concurrency.elements {
                for subject in subjects {
                    (spec.concurrency, spec.subject) = (width, subject.rawValue)
                    specs.append(spec)
                }
            }
        }
        return specs
    }
}

/// The versions of HTTP.
enum HTTPVersion: String, Codable, CaseIterable, ExpressibleByArgument {
    case http1 = "1.1"
    case http2 = "2"
}

extension CaseSpec {
    /// The certificates and the version of HTTP, for Convoy.
    var connectionOptions: ConnectionOptions {
        var options = ConnectionOptions()
        if let cacert { options.trust = .certificates(in: URL(fileURLWithPath: cacert)) }
        if http == .http1, url?.scheme == "https" { options.httpVersion = .http1 }
        return options
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
    ///
    /// - Throws: if it does not support an option.
    func choice(_ options: ConnectionOptions) throws -> TransportChoice {
        switch self {
        case .automatic: try .connecting(with: options)
        case .urlSession: try .urlSession(with: options)
        #if os(Linux)
            case .curl: .custom(try CurlTransport(options))
        #endif
        }
    }
}
