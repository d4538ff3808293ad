// The totals of a report's requests, including those without a row.

/// The totals of a report's requests.
struct ReportSums: Equatable, Sendable {
    private(set) var counts: [RequestRecord.Outcome: Int] = [:]
    private(set) var failures: [String: Int] = [:]
    /// The bytes received by successful requests.
    private(set) var bytes: Int64 = 0
    private(set) var resumedBytes: Int64 = 0
    private(set) var attempts = 0
    private(set) var retries = 0
    private(set) var redirects = 0
    /// When the first request was queued, in microseconds since 1970.
    private(set) var first: Int64?
    private(set) var last: Int64?
    /// The number of requests that have no row, because the report has a row limit.
    var rowlessCount = 0

    var requests: Int { counts.values.reduce(0, +) }
    subscript(outcome: RequestRecord.Outcome) -> Int { counts[outcome] ?? 0 }
    var microseconds: Int64 { first.flatMap { first in last.map { $0 - first } } ?? 0 }

    /// Adds the totals of another report.
    ///
    /// The time range covers both reports, so the duration is too long if the reports are from different times.
    mutating func add(_ other: ReportSums) {
        counts.merge(other.counts, uniquingKeysWith: +)
        failures.merge(other.failures, uniquingKeysWith: +)
        bytes = bytes.addingSaturated(other.bytes)
        resumedBytes = resumedBytes.addingSaturated(other.resumedBytes)
        attempts = attempts.addingSaturated(other.attempts)
        retries += other.retries
        redirects += other.redirects
        rowlessCount += other.rowlessCount
        first = [first, other.first].compactMap { $0 }.min()
        last = [last, other.last].compactMap { $0 }.max()
    }

    mutating func count(_ record: RequestRecord) {
        counts[record.outcome, default: 0] += 1
        if record.outcome == .failed { failures[record.code ?? "other", default: 0] += 1 }
        // A file of another program may contain any numbers, which could overflow.
        bytes = bytes.addingSaturated(record.bytes)
        if record.outcome == .succeeded { resumedBytes = resumedBytes.addingSaturated(record.resumedBytes) }
        attempts = attempts.addingSaturated(record.attemptCount)
        retries += record.retryCount
        redirects += record.redirectCount
        guard let queued = record.queued, let ended = record.ended else { return }
        first = min(first ?? queued, queued)
        last = max(last ?? ended, ended)
    }
}

extension FixedWidthInteger {
    /// The sum of two positive numbers, or the maximum on overflow.
    fileprivate func addingSaturated(_ other: Self) -> Self {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
