// What one case of one subject came to.
import Foundation

/// A line of the JSON output; absent keys do not apply.
struct Measurement: Codable, Sendable {
    var benchmark: String
    var subject: String
    var count: Int
    var concurrency: Int?
    var seconds: Double?
    var requestsPerSecond: Double?
    var cpuMicrosecondsPerRequest: Double?
    var bytesPerSecond: Double?
    /// Bytes of heap that an operation costs while it is queued.
    var bytesPerOperation: Double?
    /// The same as growth of the resident set.
    var rssBytesPerOperation: Double?
    var peakRSSBytes: Int?
    /// Growth of the resident set from the start of the case to its peak.
    var peakRSSGrowthBytes: Int?
    /// Errors of all rounds together.
    var errors = 0
    var firstError: String?
    /// Who answered.
    var server: String?
    var rounds: Int?

    init(_ benchmark: String, _ subject: String, count: Int, concurrency: Int? = nil) {
        self.benchmark = benchmark
        self.subject = subject
        self.count = count
        self.concurrency = concurrency
    }

    enum CodingKeys: String, CodingKey {
        case benchmark, subject, count, concurrency, seconds, errors, server, rounds
        case requestsPerSecond = "requests_per_second"
        case cpuMicrosecondsPerRequest = "cpu_us_per_request"
        case bytesPerSecond = "bytes_per_second"
        case bytesPerOperation = "bytes_per_operation"
        case rssBytesPerOperation = "rss_bytes_per_operation"
        case peakRSSBytes = "peak_rss_bytes"
        case peakRSSGrowthBytes = "peak_rss_growth_bytes"
        case firstError = "first_error"
    }
}

extension Measurement {
    /// Time for each of `count`, in microseconds.
    var microsecondsEach: Double? { seconds.map { $0 * 1e6 / Double(max(1, count)) } }

    /// Adds what a stopwatch says.
    mutating func add(_ reading: Stopwatch.Reading) {
        seconds = reading.seconds
        requestsPerSecond = Double(count) / reading.seconds
        cpuMicrosecondsPerRequest = reading.cpuSeconds * 1e6 / Double(max(1, count))
        peakRSSBytes = reading.peakRSSBytes
        peakRSSGrowthBytes = reading.peakRSSGrowthBytes
    }

    /// Adds what went wrong.
    mutating func add(_ tally: Tally) {
        let (errors, first) = tally.errors
        self.errors += errors
        if firstError == nil { firstError = first }
    }

    /// The object on one line.
    func line() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }

    /// Each figure's median over the rounds; errors are added up.
    static func median(_ rounds: [Measurement]) -> Measurement? {
        guard var result = rounds.first else { return nil }
        func middle<Value: Comparable>(_ key: (Measurement) -> Value?) -> Value? {
            let values = rounds.compactMap(key).sorted()
            return values.isEmpty ? nil : values[values.count / 2]
        }
        result.seconds = middle(\.seconds)
        result.requestsPerSecond = middle(\.requestsPerSecond)
        result.cpuMicrosecondsPerRequest = middle(\.cpuMicrosecondsPerRequest)
        result.bytesPerSecond = middle(\.bytesPerSecond)
        result.bytesPerOperation = middle(\.bytesPerOperation)
        result.rssBytesPerOperation = middle(\.rssBytesPerOperation)
        result.peakRSSBytes = middle(\.peakRSSBytes)
        result.peakRSSGrowthBytes = middle(\.peakRSSGrowthBytes)
        result.errors = rounds.reduce(0) { $0 + $1.errors }
        result.firstError = rounds.compactMap(\.firstError).first
        result.rounds = rounds.count
        return result
    }
}
