// The data of a page: the requests of one or several runs, and their totals.

/// Collects and counts the events of runs, one run after another.
///
/// Memory is limited. Totals count everything, but at most ``rowLimit`` rows are kept for failures and for other
/// requests each.
struct Report: Sendable {
    /// One run.
    struct Run: Equatable, Sendable {
        let name: String
        /// Whether its summary was read.
        var hasEnded = false
    }

    static let rowLimit = 100_000

    let title: String
    private(set) var runs: [Run] = []
    private(set) var sums = ReportSums()
    private(set) var records: [RequestRecord] = []
    /// Further remarks about the runs.
    private(set) var remarks: [String] = []
    private let rowLimit: Int
    private var plainCount = 0
    /// The size of the failed answers' heads and texts so far.
    ///
    /// Further ones are omitted beyond a limit.
    private var bodyBytes = 0
    private static let bodyLimitBytes = 4 << 20
    /// Whether starts are read, for files that may be truncated.
    private let readsStarts: Bool
    /// The started requests of the last run.
    private var begun: [Int: RequestRecord] = [:]
    private var ended: Set<Int> = []
    /// Requests of earlier runs that started and did not end.
    private var unfinished: [RequestRecord] = []
    /// The run in which a request last ended, by its identity.
    private var endings: [Int: Int] = [:]

    init(title: String, readsStarts: Bool = false, rowLimit: Int = Report.rowLimit) {
        (self.title, self.readsStarts, self.rowLimit) = (title, readsStarts, rowLimit)
    }

    /// Starts another run.
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

    /// Handles another run that appended to the same file.
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
        bodyBytes += (record.body?.utf8.count ?? 0) + (record.head?.utf8.count ?? 0)
        if bodyBytes > Self.bodyLimitBytes { (record.head, record.body) = (nil, nil) }
        records.append(record)
    }

    /// The report after everything was added.
    ///
    /// A request without an end that ended in another run was continued there.
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
