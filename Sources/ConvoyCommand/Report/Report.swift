// The totals count every request. At most ``rowLimit`` rows are stored for successful and skipped requests, and as
// many for all other requests, so that the rows do not fill the memory.
struct Report: Sendable {
    struct Run: Equatable, Sendable {
        let name: String
        var hasEnded = false
    }

    static let rowLimit = 100_000

    let title: String
    private(set) var runs: [Run] = []
    private(set) var sums = ReportSums()
    private(set) var records: [RequestRecord] = []
    private(set) var remarks: [String] = []
    private let rowLimit: Int
    private var plainCount = 0
    /// Beyond a limit, further heads and bodies are omitted.
    private var headBytes = 0
    private static let headLimitBytes = 4 << 20
    private let readsStarts: Bool
    private var begun: [Int: RequestRecord] = [:]
    private var ended: Set<Int> = []
    private var unfinished: [RequestRecord] = []
    private var endings: [Int: Int] = [:]

    init(title: String, readsStarts: Bool = false, rowLimit: Int = Report.rowLimit) {
        (self.title, self.readsStarts, self.rowLimit) = (title, readsStarts, rowLimit)
    }

    mutating func begin(_ name: String) {
        endRun()
        runs.append(Run(name: name))
    }

    mutating func note(_ remark: String) { remarks.append(remark) }

    mutating func add(_ event: EventLine) {
        if runs.isEmpty { begin(title) }
        switch event.event {
        case "summary": runs[runs.count - 1].hasEnded = true
        case "warning":
            if let message = event.message { note(message.withRedactedURLs) }
        case "started":
            guard readsStarts, let index = event.index else { return }
            splitRun(if: begun[index] != nil || ended.contains(index))
            begun[index] = RequestRecord(event, run: runs.count - 1)
        default: addEnd(event)
        }
    }

    private mutating func addEnd(_ event: EventLine) {
        if let index = event.index, ["finished", "skipped", "failed"].contains(event.event) {
            splitRun(if: ended.contains(index))
            ended.insert(index)
            begun[index] = nil
        }
        guard let record = RequestRecord(event, run: runs.count - 1) else { return }
        if readsStarts { endings[record.identity] = record.run }
        keep(record)
    }

    private mutating func splitRun(if isAnother: Bool) {
        guard isAnother || runs.last?.hasEnded == true, let name = runs.last?.name else { return }
        begin(name)
    }

    private mutating func endRun() {
        unfinished += begun.sorted { $0.key < $1.key }.map(\.value)
        (begun, ended) = ([:], [])
    }

    private mutating func keep(_ record: RequestRecord) {
        sums.count(record)
        let isPlain = [.succeeded, .skipped].contains(record.outcome)
        let count = isPlain ? plainCount : records.count - plainCount
        guard count < rowLimit else {
            sums.rowlessCount += 1
            return
        }
        if isPlain { plainCount += 1 }
        var record = record
        headBytes += record.head?.utf8.count ?? 0
        if headBytes > Self.headLimitBytes { record.head = nil }
        records.append(record)
    }

    // A request that did not end is unfinished, unless a request with the same identity ended in another run.
    func closed() -> Report {
        var report = self
        report.endRun()
        for record in report.unfinished where report.endings[record.identity].map({ $0 == record.run }) ?? true {
            report.keep(record)
        }
        report.unfinished = []
        return report
    }
}

struct ReportSums: Equatable, Sendable {
    private(set) var counts: [RequestRecord.Outcome: Int] = [:]
    private(set) var failures: [String: Int] = [:]
    private(set) var bytes: Int64 = 0
    private(set) var resumedBytes: Int64 = 0
    private(set) var attempts = 0
    private(set) var retries = 0
    private(set) var redirects = 0
    private(set) var first: Int64?
    private(set) var last: Int64?
    var rowlessCount = 0

    var requests: Int { counts.values.reduce(0, +) }
    subscript(outcome: RequestRecord.Outcome) -> Int { counts[outcome] ?? 0 }
    var microseconds: Int64 { first.flatMap { first in last.map { $0 - first } } ?? 0 }

    // The time range covers both reports, so the duration is too long if the reports are from different times.
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
    fileprivate func addingSaturated(_ other: Self) -> Self {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? .max : sum
    }
}
