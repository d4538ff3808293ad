// `convoy report`: the events of several runs, joined.
import Foundation

/// The subcommand.
struct ReportCommand {
    let options: ReportOptions

    /// Prints the figures, and writes the page.
    ///
    /// - Throws: where a file cannot be read; nothing has been written then.
    func run() throws(UsageError) -> ExitStatus {
        let console = Console(allowsLive: false)
        let title = options.files.count == 1 ? "convoy report \(options.files[0])" : "convoy report"
        var report = Report(title: title, readsStarts: true)
        for file in options.files {
            let data: Data
            do throws(UsageError) { data = try OptionValues.content(of: file) } catch {
                throw ReportOptions.error(error.message)
            }
            EventFile.read(data, name: file == "-" ? "standard input" : file, into: &report)
        }
        report = report.closed()
        for remark in report.remarks { console.printError("convoy: \(remark)") }
        var status = ExitStatus.success
        if let page = options.page {
            for problem in FetchSetup.write(ReportPage.text(report), to: page) {
                console.printError("convoy: \(problem)")
                status = .failure
            }
        }
        console.printLine(report.sums.text(runs: report.runs.count))
        return console.status(after: status)
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

        Examples:
          convoy run --json api.http > a.jsonl
          convoy report a.jsonl b.jsonl --html report.html

        \(ReportOptions.table.helpByGroup)

        The page has no passwords, keys and header fields; URLs are shown without user
        names, and without the values of parameters whose names tell of a secret.

        Exit status:
          0    the figures were printed, and the page was written
          1    it could not be written
          2    usage error, or a file that cannot be read; nothing was written
          141  standard output was closed
        """
}
