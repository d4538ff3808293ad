// `convoy report`: combines the events of several runs.
import Foundation

/// Runs the subcommand `report`.
struct ReportCommand {
    let options: ReportOptions

    /// Writes the page and prints the statistics.
    ///
    /// A report without events fails, and its page is not written.
    ///
    /// - Throws: if a file cannot be read. The page was not written then.
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
            if let times = TimeFigures(report.records.compactMap(\.time)) { lines.append(name + times.text) }
        }
        if reports.count == 2 { lines.append(ReportComparison(reports[0].records, reports[1].records).text) }
        return lines
    }
}

extension ReportSums {
    /// The statistics as one line.
    func text(runs: Int) -> String {
        let outcomes = RequestRecord.Outcome.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.word)" }
        let parts =
            [Figures.count(requests, "request") + " in \(Figures.count(runs, "run"))"] + outcomes + [
                Figures.bytes(bytes), Figures.time(.microseconds(microseconds)),
            ]
        return parts.joined(separator: ", ")
    }
}
