// The transports that the conformance suite tests.
import Convoy
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

extension RequestError {
    /// Expects this code with the facts that it usually has, and a description of one line.
    ///
    /// - Parameter status: the status of the head before the failure, or 0 without a head; not checked by default.
    func expect(_ expected: Code, status: Int? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(code == expected, "\(self)", sourceLocation: sourceLocation)
        #expect(isRetryable == expected.facts.contains(.retryable), sourceLocation: sourceLocation)
        if let status { #expect(response?.statusCode ?? 0 == status, sourceLocation: sourceLocation) }
        #expect(description.isOneLine, sourceLocation: sourceLocation)
    }
}
