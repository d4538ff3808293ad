import Testing

@testable import ConvoyCommand

@Suite struct OptionScannerTests {
    private let jobs = Option("jobs", short: "j", value: .text("N"), summary: "")
    private let quiet = Option("quiet", short: "q", summary: "")

    private func scan(_ arguments: String...) throws(UsageError) -> ScannedArguments {
        try OptionScanner(options: [jobs, quiet], command: "x").scan(arguments)
    }

    @Test func everySpellingGivesTheValue() throws {
        for arguments in [["--jobs", "4"], ["--jobs=4"], ["-j", "4"], ["-j4"], ["-qj4"]] {
            let scanned = try OptionScanner(options: [jobs, quiet], command: "x").scan(arguments)
            #expect(scanned.value(of: jobs) == "4")
            #expect(scanned.operands == [])
        }
    }

    @Test func optionsAndOperandsMix() throws {
        let scanned = try scan("a", "-q", "b", "-", "--", "-q", "--jobs")
        #expect(scanned.has(quiet))
        #expect(scanned.operands == ["a", "b", "-", "-q", "--jobs"])
    }

    @Test func theLastValueWinsAndAllAreKept() throws {
        let scanned = try scan("-j1", "-j", "-2", "--jobs=a=b")
        #expect(scanned.values(of: jobs) == ["1", "-2", "a=b"])
        #expect(scanned.value(of: jobs) == "a=b")
    }

    @Test(arguments: [
        (["--nope"], "there is no option --nope"), (["-x"], "there is no option -x"),
        (["--jobs"], "the option --jobs needs a value: --jobs N"), (["-j"], "the option -j needs a value: -j N"),
        (["--jobs="], "the option --jobs needs a value: --jobs N"),
        (["--quiet=1"], "the option --quiet takes no value: leave out what stands behind ="),
    ])
    func mistakesAreNamed(arguments: [String], message: String) {
        #expect(throws: UsageError(message, command: "x")) {
            try OptionScanner(options: [jobs, quiet], command: "x").scan(arguments)
        }
    }
}
