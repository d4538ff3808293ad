import Testing

@testable import ConvoyCommand

@Suite struct ReportOptionsTests {
    @Test func filesAndThePageAreTaken() throws {
        let options = try #require(try ReportOptions(parsing: ["a.jsonl", "--html", "p.html", "-"]))
        #expect(options.files == ["a.jsonl", "-"])
        #expect(options.page == "p.html")
        #expect(try ReportOptions(parsing: ["--help"]) == nil)
    }

    @Test(arguments: [
        ([], "there is no file; write convoy report EVENTS.jsonl --html PAGE.html"),
        (["-", "-"], "standard input can be read once only"),
        (["a", "--htm", "x"], "there is no option --htm; did you mean --html?"),
    ])
    func mistakesAreTold(arguments: [String], message: String) {
        #expect(throws: UsageError(message, command: "report")) { try ReportOptions(parsing: arguments) }
    }

    @Test(arguments: [["--json", "--quiet"], ["--json", "--dry-run"]])
    func eventsOfARunExcludeSilenceAndPlans(arguments: [String]) {
        #expect(throws: UsageError.self) { try RunOptions(parsing: arguments + ["a.http"]) }
    }
}
