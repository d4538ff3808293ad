// The result of one case of one subject.
import Foundation

/// A line of the JSON output; absent keys do not apply.
struct Measurement: Codable, Sendable {
    var benchmark: String
    var subject: String
    var count: Int
    var concurrency: Int?
    /// The version of HTTP.
    var http: String?
    var seconds: Double?
    var requestsPerSecond: Double?
    var cpuMicrosecondsPerRequest: Double?
    var bytesPerSecond: Double?
    /// Processor time for each byte of a transfer.
    var cpuNanosecondsPerByte: Double?
    /// The body bytes of a transfer, or the size of the database of a durable queue.
    var bytes: Int?
    /// The destination of a download's body: disk, slow or fast.
    var consumer: String?
    /// Bytes of heap that an operation costs while it is queued.
    var bytesPerOperation: Double?
    /// The growth of the resident set for each queued operation.
    var rssBytesPerOperation: Double?
    /// Calls for each request: of functions that lock, of functions that allocate, and of the kernel.
    var locksPerRequest: Double?
    var allocationsPerRequest: Double?
    var systemCallsPerRequest: Double?
    var futexCallsPerRequest: Double?
    var pollCallsPerRequest: Double?
    var peakRSSBytes: Int?
    /// Growth of the resident set from the start of the case to its peak.
    var peakRSSGrowthBytes: Int?
    /// Errors of all rounds together.
    var errors = 0
    var firstError: String?
    /// The server that responded.
    var server: String?
    var rounds: Int?

    init(_ benchmark: String, _ subject: String, count: Int, concurrency: Int? = nil) {
        self.benchmark = benchmark
        self.subject = subject
        self.count = count
        self.concurrency = concurrency
    }

    /// An empty measurement of a case.
    init(_ spec: CaseSpec) {
        self.init(spec.benchmark.rawValue, spec.subject, count: spec.count, concurrency: spec.concurrency)
        http = spec.http?.rawValue
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case benchmark, subject, count, concurrency, http, seconds, errors, server, rounds, bytes, consumer
        case requestsPerSecond = "requests_per_second"
        case cpuMicrosecondsPerRequest = "cpu_us_per_request"
        case bytesPerSecond = "bytes_per_second"
        case cpuNanosecondsPerByte = "cpu_ns_per_byte"
        case bytesPerOperation = "bytes_per_operation"
        case rssBytesPerOperation = "rss_bytes_per_operation"
        case locksPerRequest = "locks_per_request"
        case allocationsPerRequest = "allocations_per_request"
        case systemCallsPerRequest = "syscalls_per_request"
        case futexCallsPerRequest = "futex_calls_per_request"
        case pollCallsPerRequest = "poll_calls_per_request"
        case peakRSSBytes = "peak_rss_bytes"
        case peakRSSGrowthBytes = "peak_rss_growth_bytes"
        case firstError = "first_error"
    }
}

extension [Measurement] {
    /// The measurement of a subject with the same load.
    func peer(_ subject: String, of result: Measurement) -> Measurement? {
        first { $0.subject == subject && $0.concurrency == result.concurrency && $0.http == result.http }
    }
}

extension Measurement {
    /// The time for each of `count` items, in microseconds.
    var microsecondsEach: Double? { seconds.map { $0 * 1e6 / Double(max(1, count)) } }

    /// Adds the times and the memory that a stopwatch measured.
    mutating func add(_ reading: Stopwatch.Reading) {
        seconds = reading.seconds
        requestsPerSecond = Double(count) / reading.seconds
        cpuMicrosecondsPerRequest = reading.cpuSeconds * 1e6 / Double(max(1, count))
        peakRSSBytes = reading.peakRSSBytes
        peakRSSGrowthBytes = reading.peakRSSGrowthBytes
    }

    /// Adds the reading of a transfer, with the rate and the processor time for each byte.
    mutating func addTransfer(_ reading: Stopwatch.Reading, bytes: Int) {
        self.bytes = bytes
        seconds = reading.seconds
        peakRSSBytes = reading.peakRSSBytes
        peakRSSGrowthBytes = reading.peakRSSGrowthBytes
        guard bytes > 0 else { return }
        bytesPerSecond = Double(bytes) / reading.seconds
        cpuNanosecondsPerByte = reading.cpuSeconds * 1e9 / Double(bytes)
    }

    /// Adds the errors of a tally.
    mutating func add(_ tally: Tally) {
        let (errors, first) = tally.errors
        self.errors += errors
        if firstError == nil { firstError = first }
    }

    /// The measurement as one line of JSON.
    func line() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }

    /// The median of each value over the rounds; errors are added up.
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
        result.cpuNanosecondsPerByte = middle(\.cpuNanosecondsPerByte)
        result.bytes = middle(\.bytes)
        result.bytesPerOperation = middle(\.bytesPerOperation)
        result.rssBytesPerOperation = middle(\.rssBytesPerOperation)
        result.locksPerRequest = middle(\.locksPerRequest)
        result.allocationsPerRequest = middle(\.allocationsPerRequest)
        result.systemCallsPerRequest = middle(\.systemCallsPerRequest)
        result.futexCallsPerRequest = middle(\.futexCallsPerRequest)
        result.pollCallsPerRequest = middle(\.pollCallsPerRequest)
        result.peakRSSBytes = middle(\.peakRSSBytes)
        result.peakRSSGrowthBytes = middle(\.peakRSSGrowthBytes)
        result.errors = rounds.reduce(0) { $0 + $1.errors }
        result.firstError = rounds.compactMap(\.firstError).first
        result.rounds = rounds.count
        return result
    }
}
