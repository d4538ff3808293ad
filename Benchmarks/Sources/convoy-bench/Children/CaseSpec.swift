// What one child process measures.
import Foundation

/// One case of one subject, in a form that goes on a command line.
struct CaseSpec: Codable, Sendable {
    enum Benchmark: String, Codable, Sendable {
        case requests
        case queue
        case queueCancel = "queue-cancel"
        case chain
        case fanout
        case million
    }

    var benchmark: Benchmark
    var subject: String
    var count: Int
    var concurrency = 1
    var warmup = 0
    var transport = TransportName.automatic
    var url: URL?
    /// What each answer's body has to measure.
    var bodyBytes = 0

    /// Runs it in this process.
    func run() async throws -> [Measurement] {
        switch benchmark {
        case .requests: [try await measureRequests(self)]
        case .queue: try await measureQueue(self)
        case .queueCancel: try await measureQueueCancel(self)
        case .chain: [try await measureChain(self)]
        case .fanout: [try await measureFanout(self)]
        case .million: [await measureMillion(self)]
        }
    }

    /// How progress lines name it.
    var title: String { "\(benchmark.rawValue) \(subject) \(count)" }
}

/// Why a case could not be run.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
