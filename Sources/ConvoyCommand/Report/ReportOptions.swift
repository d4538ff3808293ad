// What `convoy report` was asked for.
import Foundation

/// The options of a report, checked.
struct ReportOptions: Sendable {
    /// Files of events; a dash is standard input.
    let files: [String]
    /// Where the page goes; nil for figures alone.
    let page: String?
    /// Whether the two files are two reports beside each other, and not one of both.
    let compares: Bool
    /// The command line as a page may show it.
    let commandLine: String

    private static let html = Option(
        "html", value: .file("FILE"), .output, summary: "write a page that shows every request",
        detail: "write a page to FILE, for browsers: a waterfall and a table of the requests of all runs")

    private static let compare = Option(
        "compare", .output, summary: "show two files beside each other",
        detail: "show two files beside each other: figures, groups, what fails now and what takes longer")

    static let table: [Option] = [html, compare, .help]

    /// Reads a command line; nil when it asks for help.
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
