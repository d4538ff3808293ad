import Testing

@testable import ConvoyCommand

@Suite struct ReportOptionsTests {
    @Test func filesAndThePageAreParsed() throws {
        let options = try #require(try ReportOptions(parsing: ["a.jsonl", "--html", "p.html", "-"]))
        #expect(options.files == ["a.jsonl", "-"])
        #expect(options.page == "p.html")
        #expect(try ReportOptions(parsing: ["--help"]) == nil)
        #expect(!options.compares)
        #expect(options.commandLine == "convoy report --html p.html a.jsonl -")
        #expect(try ReportOptions(parsing: ["--compare", "a", "b"])?.compares == true)
    }

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
