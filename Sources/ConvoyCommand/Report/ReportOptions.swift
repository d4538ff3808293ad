// The options of `convoy report`.
import Foundation

/// The checked options of a report.
struct ReportOptions: Sendable {
    /// Files with events.
    ///
    /// A dash means standard input.
    let files: [String]
    /// The file of the page; nil for figures only.
    let page: String?
    /// Whether two files are compared instead of combined.
    let compares: Bool
    /// The command line for display on a page.
    let commandLine: String

    private static let html = Option(
        "html", value: .file("FILE"), .output, summary: "write a page that shows every request",
        detail: "write a page to FILE, for browsers: a waterfall and a table of the requests of all runs")

    private static let compare = Option(
        "compare", .output, summary: "show two files beside each other",
        detail: "show two files beside each other: figures, groups, what fails now and what takes longer")

    static let table: [Option] = [html, compare, .help]

    /// Parses a command line; nil when it asks for help.
    init?(parsing arguments: [String]) throws(UsageError) {
        let scanned = try OptionScanner(options: Self.table, command: "report").scan(arguments)
        if scanned.has(.help) { return nil }
        files = scanned.operands
        page = scanned.value(of: Self.html)
        compares = scanned.has(Self.compare)
        commandLine = ShownCommandLine.text("report", arguments, Self.table)
        guard !files.isEmpty else {
            throw Self.error("there is no file; write convoy report EVENTS.jsonl --html PAGE.html")
        }
        guard files.count(where: { $0 == "-" }) < 2 else { throw Self.error("standard input can be read once only") }
        if compares, files.count != 2 {
            throw Self.error("--compare takes two files, the earlier first, and got \(files.count)")
        }
    }

    static func error(_ message: String) -> UsageError { UsageError(message, command: "report") }
}
