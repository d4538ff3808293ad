import Testing

@testable import ConvoyCommand

@Suite struct OptionScannerTests {
    private let jobs = Option("-j, --jobs N", .general, "")
    private let quiet = Option.flag("-q, --quiet", .general, "")

    private func scan(_ arguments: String...) throws(UsageError) -> ScannedArguments {
        try OptionScanner(options: [jobs, quiet]).scan(arguments)
    }

    @Test func everySpellingGivesTheValue() throws {
        for arguments in [["--jobs", "4"], ["--jobs=4"], ["-j", "4"], ["-j4"], ["-qj4"]] {
            let scanned = try OptionScanner(options: [jobs, quiet]).scan(arguments)
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
        (["--nope"], "unknown option --nope"), (["-x"], "unknown option -x"),
        (["--jobs"], "the option --jobs needs a value: --jobs N"), (["-j"], "the option -j needs a value: -j N"),
        (["--jobs="], "the option --jobs needs a value: --jobs N"),
        (["--quiet=1"], "the option --quiet takes no value: remove the = and the text after it"),
    ])
    func mistakesAreNamed(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) {
            try OptionScanner(options: [jobs, quiet]).scan(arguments)
        }
    }
}

/// Tests the table of options for each verb.
@Suite struct OptionTableTests {
    @Test(arguments: Set<Verb>.all) func everySpellingOfAVerbIsOneOption(verb: Verb) {
        let names = verb.options.flatMap { ["--\($0.name)"] + $0.aliases.map { "--\($0)" } }
        let letters = verb.options.compactMap(\.short)
        #expect(Set(names).count == names.count)
        #expect(Set(letters).count == letters.count)
        #expect(verb.options.contains(.help))
    }

    @Test(
        arguments: [
            (.run, "--segments", "it is an option of convoy fetch"),
            (.run, "-X", "it is an option of convoy fetch, queue, cache"),
            (.fetch, "--db", "it is an option of convoy queue"),
            (.queue(.add), "--watch", "it is an option of convoy queue run"),
            (.queue(.run), "--state", "it is an option of convoy queue list, why, retry, cancel, delete, export"),
            (.cache(.list), "-H", "it is an option of convoy cache why"),
            (.queue(.run), "-P", "it is an option of convoy queue add"),
            (.queue(.add), "--cache", "it is an option of convoy fetch, run, cache"),
            (.report, "--jobs", "it is an option of convoy fetch, run, queue"),
            (.fetch, "--timeout", "write --connect-timeout SEC, --max-time SEC or --min-speed BYTES"),
        ] as [(Verb, String, String)])
    func anOptionOfAnotherVerbIsExplained(verb: Verb, option: String, words: String) {
        let message = "unknown option \(option): \(words)"
        #expect(throws: UsageError(message)) {
            try ParsedOptions(verb, [option, "1"])
        }
    }

    @Test func aWordOfAChoiceIsCheckedForEveryOption() {
        for option in Option.table {
            guard case .choice = option.value, let verb = option.verbs.first else { continue }
            let error = #expect(throws: UsageError.self) { try ParsedOptions(verb, ["--\(option.name)", "?"]) }
            #expect(error?.message.hasPrefix("--\(option.name) takes ") == true)
        }
    }
}
