import Foundation

struct ReportCommand {
    let options: ReportOptions

    /// A report without events fails, and its page is not written.
    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        var (reports, lacksEvents): ([Report], Bool) = ([], false)
        for files in options.compares ? options.files.map({ [$0] }) : [options.files] {
            let (report, hasEvents) = try read(files)
            reports.append(report)
            lacksEvents = lacksEvents || !hasEvents
        }
        for remark in reports.flatMap(\.remarks) { console.printError("convoy: \(remark)") }
        guard !lacksEvents else { return console.status(after: .failure) }
        var status = ExitStatus.success
        if let page = options.page, let problem = OutputFile.write(Data(ReportPage.text(reports).utf8), to: page) {
            console.printError("convoy: \(problem)")
            status = .failure
        }
        for line in lines(reports) { console.printLine(line) }
        return console.status(after: status)
    }

    private func read(_ files: [String]) throws(UsageError) -> (report: Report, hasEvents: Bool) {
        var (report, hasEvents) = (Report(title: options.commandLine, readsStarts: true), false)
        for file in files {
            let data = try OptionValues.content(of: file)
            if EventFile.read(data, name: file == "-" ? "standard input" : file, into: &report) { hasEvents = true }
        }
        return (report.closed(), hasEvents)
    }

    private func lines(_ reports: [Report]) -> [String] {
        var lines: [String] = []
        for report in reports {
            let name = options.compares ? (report.runs.first?.name).map { $0 + ": " } ?? "" : ""
            lines.append(name + report.sums.text(runs: report.runs.count))
            if let times = Self.times(report.records.compactMap(\.time)) { lines.append(name + times) }
        }
        if reports.count == 2 { lines.append(ReportComparison(reports[0].records, reports[1].records).text) }
        return lines
    }

    // Each percentile is one of the times, by the nearest-rank method, as in the script of the page.
    static func times(_ microseconds: [Int64]) -> String? {
        let sorted = microseconds.sorted()
        guard let longest = sorted.last else { return nil }
        func text(_ time: Int64) -> String { Figures.time(.microseconds(time)) }
        let parts = [50, 90, 99].map { "\($0) % within \(text(sorted[(sorted.count * $0 + 99) / 100 - 1]))" }
        return "times: " + parts.joined(separator: ", ") + ", the longest \(text(longest))"
    }
}

extension ReportSums {
    func text(runs: Int) -> String {
        let outcomes = RequestRecord.Outcome.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.word)" }
        let parts =
            [Figures.count(requests, "request") + " in \(Figures.count(runs, "run"))"] + outcomes + [
                Figures.bytes(bytes), Figures.time(.microseconds(microseconds)),
            ]
        return parts.joined(separator: ", ")
    }
}

enum EventFile {
    private static let uninteresting: Set = ["progress", "redirect", "retry"]

    @discardableResult
    static func read(_ data: Data, name: String, into report: inout Report) -> Bool {
        report.begin(name)
        var (number, eventCount, broken) = (0, 0, [Int]())
        data.withUnsafeBytes { bytes in
            var start = 0
            while start < bytes.count {
                let rest = bytes[start...]
                let end = rest.firstIndex(of: 0x0A)
                let line = [UInt8](rest[..<(end ?? rest.endIndex)])
                start += line.count + 1
                number += 1
                if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { continue }
                if let event = EventLine(line) {
                    eventCount += 1
                    if !uninteresting.contains(event.event) { report.add(event) }
                } else if end == nil {
                    report.note("\(name): the last line is incomplete, and was skipped; the run may have been killed")
                } else {
                    broken.append(number)
                }
            }
        }
        if let first = broken.first {
            report.note(
                broken.count == 1
                    ? "\(name): line \(first) is not an event of --json, and was skipped"
                    : "\(name): \(broken.count) lines, the first of them line \(first), are not events of --json, and "
                        + "were skipped")
        }
        if eventCount == 0 { report.note("\(name) contains no events; write them with convoy run --json") }
        return eventCount > 0
    }
}
