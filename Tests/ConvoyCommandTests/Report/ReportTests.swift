import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct ReportTests {
    private func line(
        _ event: String, _ index: Int, _ path: String, bytes: Int64? = nil, code: String? = nil
    ) -> String {
        var line = EventLine(event: event, index: index, url: "http://a/\(path)", bytes: bytes, code: code)
        (line.queuedAt, line.lifeSeconds, line.attempts) = (1_000 + Double(index), 1, 1)
        if event == "started" { (line.queuedAt, line.lifeSeconds, line.attempts) = (nil, nil, nil) }
        return line.jsonLine + "\n"
    }
    private var summary: String { EventLine(event: "summary").jsonLine + "\n" }

    private func report(_ files: String...) -> Report {
        var report = Report(title: "t", readsStarts: true)
        for (number, text) in files.enumerated() {
            EventFile.read(Data(text.utf8), name: "\(number).jsonl", into: &report)
        }
        return report.closed()
    }

    @Test func twoShardsWithTheSameIndicesAreTwoRuns() {
        let report = report(
            line("started", 0, "a") + line("finished", 0, "a", bytes: 10) + summary,
            line("finished", 0, "b", bytes: 5) + line("failed", 1, "c", code: "timedOut") + summary)
        #expect(report.runs.map(\.name) == ["0.jsonl", "1.jsonl"])
        #expect(report.records.map(\.run) == [0, 1, 1])
        #expect(report.sums.requests == 3)
        #expect(report.sums.bytes == 15)
        #expect(report.sums.failures == ["timedOut": 1])
        #expect(report.sums.microseconds == 2_000_000)
        #expect(report.remarks == [])
    }

    @Test func sumsOfHugeNumbersAreTheMaximum() {
        let huge = line("finished", 0, "a", bytes: .max) + line("finished", 1, "b", bytes: .max)
        let one = report(huge).sums
        #expect(one.bytes == .max && one.requests == 2)
        var both = one
        both.add(one)
        #expect(both.bytes == .max && both.requests == 4)
    }

    /// The run was killed during a write.
    @Test func anIncompleteLineIsSkippedAndReported() {
        let whole = line("started", 0, "a") + line("finished", 0, "a", bytes: 10) + line("started", 1, "b")
        let report = report(whole + line("finished", 1, "b", bytes: 7).dropLast(20))
        #expect(report.records.map(\.outcome) == [.succeeded, .unfinished])
        #expect(report.sums.bytes == 10)
        #expect(
            report.remarks == ["0.jsonl: the last line is incomplete, and was skipped; the run may have been killed"])
    }

    @Test func everyPrefixOfAFileIsRead() {
        let data = Data((line("started", 0, "ä") + line("finished", 0, "ä", bytes: 10) + summary).utf8)
        for count in 0...data.count {
            var report = Report(title: "t", readsStarts: true)
            EventFile.read(data.prefix(count), name: "x", into: &report)
            #expect(report.closed().sums.requests <= 1)
        }
    }

    @Test func anInvalidEventIsReportedWithItsLine() {
        let report = report("\n" + line("finished", 0, "a") + "nonsense\n[1]\r\n{}\n\u{0}\n")
        #expect(report.sums.requests == 1)
        let remark = "0.jsonl: 4 lines, the first of them line 3, are not events of --json, and were skipped"
        #expect(report.remarks == [remark])
        #expect(self.report("").remarks == ["0.jsonl contains no events; write them with convoy run --json"])
    }

    @Test func aRequestThatAnotherRunContinuedCountsOnce() {
        let killed = line("started", 0, "a") + line("started", 1, "b") + line("started", 2, "lost")
        let again = line("finished", 0, "a", bytes: 1) + line("skipped", 1, "b") + summary
        for report in [report(killed, again), report(again, killed), report(killed + again)] {
            #expect(report.sums.requests == 3)
            #expect(report.sums[.succeeded] == 1)
            #expect(report.sums[.skipped] == 1)
            #expect(report.records.filter { $0.outcome == .unfinished }.map(\.url) == ["http://a/lost"])
        }
    }

    @Test func twoRunsInOneFileAreTwo() {
        let one = line("finished", 0, "a", bytes: 1) + summary
        #expect(report(one + one).runs.count == 2)
        #expect(report(one + one).sums.bytes == 2)
    }

    @Test func rowsAreBoundedAndSumsAreNot() {
        var report = Report(title: "t", rowLimit: 2)
        for index in 0..<10 { report.add(EventLine(event: "finished", index: index, bytes: 1)) }
        for index in 10..<15 { report.add(EventLine(event: "failed", index: index, code: "timedOut")) }
        report = report.closed()
        #expect(report.records.map(\.outcome) == [.succeeded, .succeeded, .failed, .failed])
        #expect(report.sums.requests == 15)
        #expect(report.sums.bytes == 10)
        #expect(report.sums.rowlessCount == 11)
    }
}

@Suite struct ReportPageTests {
    private static let hostile = "</script><script>alert(1)</script><!--\u{2028}\u{2029}&\u{0}\"'\\\u{FEFF}"

    private func page(_ line: EventLine) -> String {
        var report = Report(title: Self.hostile)
        report.add(line)
        report.note(Self.hostile)
        return ReportPage.text(report.closed())
    }

    private var hostileLine: EventLine {
        var line = EventLine(
            event: "failed", index: 0, name: Self.hostile, method: Self.hostile, url: "http://a/" + Self.hostile)
        (line.code, line.message) = (Self.hostile, Self.hostile)
        line.head = ["X: \(Self.hostile)"]
        line.timeline = [AttemptLine(start: 0, wait: 1, receive: 0, code: Self.hostile, location: Self.hostile)]
        return line
    }

    @Test func foreignTextCannotChangeTheDocument() throws {
        let page = page(hostileLine)
        // The page has only two script elements: the data and the program.
        #expect(page.components(separatedBy: "</script>").count == 3)
        #expect(page.components(separatedBy: "<script").count == 3)
        #expect(!page.contains("<!--"))
        #expect(!page.unicodeScalars.contains { ["\u{2028}", "\u{2029}", "\u{FEFF}", "\u{0}"].contains($0) })
        let reading = try PageReading(page)
        #expect(reading.data["title"] as? String == Self.hostile)
        let row = try #require(reading.rows.first)
        #expect(row[4] as? String == Self.hostile && row[8] as? String == Self.hostile)
        #expect(row[16] as? String == "X: \(Self.hostile)")
    }

    /// Through these properties and functions, text could become HTML, code or a URL.
    @Test func theScriptNeverMakesHTMLOfText() {
        let script = ReportPage.script
        let words = [
            "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", ".href", ".src",
        ]
        for word in words { #expect(!script.contains(word), "\(word)") }
    }

    @Test func nothingIsLoaded() {
        let page = page(hostileLine)
        #expect(page.contains("default-src 'none'"))
        let own = ReportPage.script + ReportPage.style
        for word in ["http:", "https:", "url(", "@import", "fetch("] { #expect(!own.contains(word), "\(word)") }
    }

    @Test func fieldsAndValuesOfARowAreAsMany() throws {
        func count(_ name: String) throws -> Int {
            let script = ReportPage.script
            let start = try #require(script.range(of: "const \(name) = [")).upperBound
            let end = try #require(script[start...].range(of: "]")).lowerBound
            return script[start..<end].split(separator: ",").count
        }
        let rows = try PageReading(page(hostileLine)).rows
        #expect(rows[0].count == (try count("fields")))
        let attempts = try #require(rows[0].last as? [[Any]])
        #expect(attempts[0].count == (try count("attemptFields")))
    }
}

/// The contents of a report's page, parsed from its text.
struct PageReading {
    let data: [String: Any]
    let rows: [[Any]]

    init(_ page: String) throws {
        let start = try #require(page.range(of: #"id="data">"#)).upperBound
        let end = try #require(page[start...].range(of: "</script>")).lowerBound
        data = try #require(JSONSerialization.jsonObject(with: Data(page[start..<end].utf8)) as? [String: Any])
        rows = try #require(data["rows"] as? [[Any]])
    }

    init(file: String) throws { try self.init(String(contentsOfFile: file, encoding: .utf8)) }

    /// Returns the number of requests with this outcome; nil if the page does not list the outcome.
    func count(_ outcome: String) -> Int? {
        (data["outcomes"] as? [[Any]])?.first { $0.first as? String == outcome }?.last as? Int
    }
    var paths: [Int]? { data["path"] as? [Int] }
    func names() -> [String] { rows.map { ($0[4] as? String ?? "") } }
    func facts() -> Set<String> { Set(rows.map { "\($0[1...11])" }) }
}

@Suite struct ReportOptionsTests {
    @Test(arguments: [
        ([], "a file is missing; write convoy report EVENTS.jsonl --html PAGE.html"),
        (["-", "-"], "standard input can be read only once; write - once"),
        (["--compare", "a"], "--compare takes two files, the earlier first, not 1"),
        (["--compare", "a", "b", "c"], "--compare takes two files, the earlier first, not 3"),
        (["a", "--htm", "x"], "unknown option --htm; did you mean --html?"),
    ])
    func mistakesAreReported(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try ReportOptions(parsing: arguments) }
    }

    @Test(arguments: [["--json", "--quiet"], ["--json", "--dry-run"]])
    func eventsOfARunExcludeSilenceAndPlans(arguments: [String]) {
        #expect(throws: UsageError.self) { try RunOptions(parsing: arguments + ["a.http"]) }
    }
}
