// The case that one child process measures.
import Foundation

/// One case of one subject, in a form that goes on a command line.
struct CaseSpec: Codable, Sendable {
    enum Benchmark: String, Codable, Sendable {
        case requests
        /// The same requests, counted from outside.
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
    /// The expected size of each response body; for an upload, of the sent body.
    var bodyBytes = 0
    /// The destination of a download's body.
    var consumer = Consumer.disk
    /// Where a download makes its file, SQLite its database, and a cache its directory.
    var directory: String?
    /// The PostgreSQL server of a queue.
    var database: String?
    /// The body of an upload.
    var file: String?
    /// How much a slow consumer takes.
    var bytesPerSecond = 1_000_000
    /// After how long a consumer that reads leaves.
    var seconds = 10
    /// After how long a program that does the work gives up.
    var limitSeconds = 120

    /// Runs it in this process.
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

    /// How progress lines name it.
    var title: String {
        switch benchmark {
        case .download: "download \(subject) \(consumer.rawValue)"
        case .upload: "upload \(subject)"
        default: "\(benchmark.rawValue) \(subject) \(count)"
        }
    }
}

/// Why a case could not be run.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
