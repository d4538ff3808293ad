// `convoy report`: combines the events of several runs.
import Foundation

/// Runs the subcommand `report`.
struct ReportCommand {
    let options: ReportOptions

    /// Prints the statistics and writes the page.
    ///
    /// - Throws: if a file cannot be read. The page was not written then.
    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        var reports: [Report] = []
        for files in options.compares ? options.files.map({ [$0] }) : [options.files] {
            reports.append(try read(files))
        }
        for remark in reports.flatMap(\.remarks) { console.printError("convoy: \(remark)") }
        var status = ExitStatus.success
        if let page = options.page, let problem = OutputFile.write(Data(ReportPage.text(reports).utf8), to: page) {
            console.printError("convoy: \(problem)")
            status = .failure
        }
        for line in lines(reports) { console.printLine(line) }
        return console.status(after: status)
    }

    private func read(_ files: [String]) throws(UsageError) -> Report {
        var report = Report(title: options.commandLine, readsStarts: true)
        for file in files {
            let data = try OptionValues.content(of: file)
            EventFile.read(data, name: file == "-" ? "standard input" : file, into: &report)
        }
        return report.closed()
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
