import Convoy
// The transports that the conformance suite tests.
import ConvoyTesting
import Testing

// A real transport. Every test of ``TransportConformanceTests`` runs with each real transport.
struct ConformingTransport: Sendable, CustomTestStringConvertible {
    let name: String
    let transport: any Transport

    /// All real transports; add a new transport here.
    static let all: [ConformingTransport] = {
        var all = [ConformingTransport(name: "URLSession", transport: URLSessionTransport.shared)]
        #if canImport(CLibcurl)
            all.append(ConformingTransport(name: "libcurl", transport: CurlTransport.shared))
        #endif
        return all
    }()

    var testDescription: String { name }
}

extension ConformingTransport {
    /// A transport by name, for a child process.
    static func named(_ name: String) throws -> any Transport {
        try #require(all.first { $0.name == name }).transport
    }
}
