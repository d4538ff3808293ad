// The case that one child process measures.
import Foundation

/// One case of one subject; as JSON, an argument of a child process.
struct CaseSpec: Codable, Sendable {
    enum Benchmark: String, Codable, Sendable {
        case requests
        /// The same requests; the parent process counts the calls of the child.
        case cost
        case queue
        case queueCancel = "queue-cancel"
        case chain
        case fanout
        case million
        case download
        case upload
        case durableList = "durable-list"
        case durableSingle = "durable-single"
        case durableWaiting = "durable-waiting"
        case durableDrain = "durable-drain"
        case cacheHit = "cache-hit"
        case cacheMiss = "cache-miss"
        case cacheFile = "cache-file"
        case cacheFill = "cache-fill"
        case cacheMany = "cache-many"
    }

    var benchmark: Benchmark
    var subject: String
    var count: Int
    var concurrency = 1
    var warmup = 0
    var transport = TransportName.automatic
    var url: URL?
    /// The PEM file of the trusted certificates; nil for those of the system.
    var cacert: String?
    /// The version of HTTP of the server's responses; nil if it is not known.
    var http: HTTPVersion?
    /// The expected size of each response body; for an upload, of the sent body.
    var bodyBytes = 0
    /// The destination of a download's body.
    var consumer = Consumer.disk
    /// The parent directory for a download's file, SQLite's database or a cache.
    var directory: String?
    /// The PostgreSQL server of a queue.
    var database: String?
    /// The body of an upload.
    var file: String?
    /// The rate of a slow consumer.
    var bytesPerSecond = 1_000_000
    /// The number of seconds after which a reading consumer stops.
    var seconds = 10
    /// The time limit of an external program, such as curl.
    var limitSeconds = 120

    /// Runs the case in this process.
    func run() async throws -> [Measurement] {
        switch benchmark {
        case .requests, .cost: [try await measureRequests(self)]
        case .queue: try await measureQueue(self)
        case .queueCancel: try await measureQueueCancel(self)
        case .chain: [try await measureChain(self)]
        case .fanout: [try await measureFanout(self)]
        case .million: [await measureMillion(self)]
        case .download, .upload: [try await measureTransfer(self)]
        case .durableList, .durableSingle, .durableWaiting, .durableDrain: try await measureDurable(self)
        case .cacheHit, .cacheMiss, .cacheFile, .cacheFill, .cacheMany: try await measureCache(self)
        }
    }

    /// The name of the case in progress lines.
    var title: String {
        switch benchmark {
        case .download: "download \(subject) \(consumer.rawValue)"
        case .upload: "upload \(subject)"
        case .requests, .cost: "\(benchmark) \(subject), \(concurrency) over HTTP/\(http?.rawValue ?? "?")"
        default: "\(benchmark.rawValue) \(subject) \(count)"
        }
    }
}

/// The reason why a case could not be measured.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
