// The data of a page: the requests of one or several runs, and their totals.

/// Collects and counts the events of runs, one run after another.
///
/// The totals count every request. At most ``rowLimit`` rows are stored for successful and skipped requests, and as
/// many for all other requests, so that the rows do not fill the memory.
struct Report: Sendable {
    struct Run: Equatable, Sendable {
        let name: String
        /// Whether the summary of the run was read.
        var hasEnded = false
    }

    static let rowLimit = 100_000

    let title: String
    private(set) var runs: [Run] = []
    private(set) var sums = ReportSums()
    private(set) var records: [RequestRecord] = []
    /// Remarks about the runs, for example about skipped lines.
    private(set) var remarks: [String] = []
    private let rowLimit: Int
    private var plainCount = 0
    /// The bytes in heads and bodies of failed responses so far.
    ///
    /// Beyond a limit, further heads and bodies are omitted.
    private var headBytes = 0
    private static let headLimitBytes = 4 << 20
    /// Whether `started` events are read, which show the unfinished requests of a killed run.
    private let readsStarts: Bool
    /// The requests of the last run that have started and not ended, by their index.
    private var begun: [Int: RequestRecord] = [:]
    private var ended: Set<Int> = []
    /// Requests of earlier runs that started and did not end.
    private var unfinished: [RequestRecord] = []
    /// The number of the run in which a request last ended, by the identity of the request.
    private var endings: [Int: Int] = [:]

    init(title: String, readsStarts: Bool = false, rowLimit: Int = Report.rowLimit) {
        (self.title, self.readsStarts, self.rowLimit) = (title, readsStarts, rowLimit)
    }

    /// Starts another run, to which the next events belong.
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

    /// Begins another run if an event belongs to a run that appended to the same file.
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

    /// The report after the last event was added.
    ///
    /// A request that started and did not end is unfinished, unless a request with the same identity ended in another
    /// run.
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
