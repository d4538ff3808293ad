// What a page shows: the requests of one run or of several, and their sums.

/// Takes events of runs, one run after the other, and counts; a value.
///
/// Memory is bounded: sums count everything, rows are kept up to ``rowLimit``, failures apart from the rest.
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
    /// What has to be known beside the requests.
    private(set) var remarks: [String] = []
    private let rowLimit: Int
    private var plainCount = 0
    /// Of the heads and texts of refusals so far; those beyond a limit are left out.
    private var bodyBytes = 0
    private static let bodyLimitBytes = 4 << 20
    /// Whether starts are read: of files that may have been cut off.
    private let readsStarts: Bool
    /// Of the last run.
    private var begun: [Int: RequestRecord] = [:]
    private var ended: Set<Int> = []
    /// Requests that began and did not end, of all runs before.
    private var unfinished: [RequestRecord] = []
    /// In which run what was asked for has ended last.
    private var endings: [Int: Int] = [:]

    init(title: String, readsStarts: Bool = false, rowLimit: Int = Report.rowLimit) {
        (self.title, self.readsStarts, self.rowLimit) = (title, readsStarts, rowLimit)
    }

    /// Begins another run.
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

    /// Another run has written to the same file, behind the first.
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

    /// The report when everything has been added.
    ///
    /// What had no end in its run, and ended in another, was continued there.
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
