struct ReportOptions: Sendable {
    // A dash means standard input.
    private(set) var files: [String] = []
    var page: String?
    var compares = false
    private(set) var commandLine = ""
}

extension ReportOptions {
    init?(parsing arguments: [String]) throws(UsageError) {
        guard let parsed = try ParsedOptions(.report, arguments) else { return nil }
        self = parsed.report
        (files, commandLine) = (parsed.operands, parsed.fetch.commandLine ?? "")
        guard !files.isEmpty else {
            throw UsageError("a file is missing; write convoy report EVENTS.jsonl --html PAGE.html")
        }
        guard files.count(where: { $0 == "-" }) < 2 else {
            throw UsageError("standard input can be read only once; write - once")
        }
        try parsed.checkFiles(files.map { NamedFile(name: "the file of events", path: $0, use: .input) })
        if compares, files.count != 2 {
            throw UsageError("--compare takes two files, the earlier first, not \(files.count)")
        }
    }
}
