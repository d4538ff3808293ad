// `convoy report`: combines the events of several runs.
import Foundation

/// The subcommand.
struct ReportCommand {
    let options: ReportOptions

    /// Prints the figures and writes the page.
    ///
    /// - Throws: when a file cannot be read. Nothing was written then.
    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        var reports: [Report] = []
        for files in options.compares ? options.files.map({ [$0] }) : [options.files] {
            reports.append(try read(files))
        }
        for remark in reports.flatMap(\.remarks) { console.printError("convoy: \(remark)") }
        var status = ExitStatus.success
        if let page = options.page {
            for problem in FetchSetup.write(text(reports), to: page) {
                console.printError("convoy: \(problem)")
                status = .failure
            }
        }
        for line in lines(reports) { console.printLine(line) }
        return console.status(after: status)
    }

    private func read(_ files: [String]) throws(UsageError) -> Report {
        var report = Report(title: options.commandLine, readsStarts: true)
        for file in files {
            let data: Data
            do throws(UsageError) { data = try OptionValues.content(of: file) } catch {
                throw ReportOptions.error(error.message)
            }
            EventFile.read(data, name: file == "-" ? "standard input" : file, into: &report)
        }
        return report.closed()
    }

    private func text(_ reports: [Report]) -> String {
        reports.count == 2 ? ReportPage.text(reports[0], reports[1]) : ReportPage.text(reports[0])
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
    /// The figures as one line.
    func text(runs: Int) -> String {
        let outcomes = RequestRecord.Outcome.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.word)" }
        let parts =
            [Figures.count(requests, "request") + " in \(Figures.count(runs, "run"))"] + outcomes + [
                Figures.bytes(bytes), Figures.time(.microseconds(microseconds)),
            ]
        return parts.joined(separator: ", ")
    }
}

extension HelpText {
    static let report = """
        Usage: convoy report EVENTS.jsonl... --html FILE

        Joins the events that runs have written with --json, those of shards for
        example, and shows them on one page: a waterfall, a table to sort and filter,
        failures first, and the chain of requests that the run could not be shorter
        than. The page needs no network. Files of runs that were killed are read as far
        as they go; what another run has continued counts once.

        With --compare the page shows two files beside each other, the earlier first:
        their figures and times, each host, name and status, what fails in the second
        only, and what takes longest in comparison.

        Examples:
          convoy run --json api.http > a.jsonl
          convoy report a.jsonl b.jsonl --html report.html
          convoy report --compare monday.jsonl tuesday.jsonl --html both.html

        \(ReportOptions.table.helpByGroup)

        The page has no passwords and keys, and header fields of refusals alone; URLs
        are shown without user names, and without the values of parameters whose names
        tell of a secret. In its title, values of options that may be secrets are left
        out.

        Exit status:
          0    the figures were printed, and the page was written
          1    it could not be written
          2    usage error, or a file that cannot be read; nothing was written
          141  standard output was closed
        """
}
