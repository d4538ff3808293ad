import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct OptionScannerTests {
    @Test func optionsAndOperandsMix() throws {
        let quiet = Option.flag("-q, --quiet", .general, "")
        let scanner = OptionScanner(options: [Option("-j, --jobs N", .general, ""), quiet])
        let scanned = try scanner.scan(["a", "-q", "b", "-", "--", "-q", "--jobs"])
        #expect(scanned.has(quiet))
        #expect(scanned.operands == ["a", "b", "-", "-q", "--jobs"])
    }
}

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
            expectMistake("^--\(option.name) takes ") { try ParsedOptions(verb, ["--\(option.name)", "?"]) }
        }
    }
}

@Suite struct FetchOptionsTests {
    @Test(arguments: [
        ("2.5", Duration.milliseconds(2_500)), (".5", .milliseconds(500)), ("5.", .seconds(5)), ("007", .seconds(7)),
        (String(repeating: "9", count: 400), .seconds(1_000_000_000)),
    ])
    func deadlinesAreSecondsWithOrWithoutAFraction(text: String, deadline: Duration) throws {
        let options = try #require(try FetchOptions(parsing: ["--deadline", text, "http://a/"]))
        #expect(options.deadline == deadline)
    }

    @Test(arguments: ["0", "0.0", "-1", "1e3", "0x10", "inf", "nan", ".", "1.2.3", "1,5", "5s", " 5", "\u{0665}"])
    func otherDeadlinesAreRefused(text: String) {
        let wanted = "a number of seconds above 0, such as 30 or 2.5"
        #expect(throws: UsageError("--deadline takes \(wanted), not \(text.debugDescription)")) {
            try FetchOptions(parsing: ["--deadline", text, "http://a/"])
        }
    }

    @Test(
        arguments: [
            ("0", 0), ("500", 500), ("500b", 500), ("500k", 500_000), ("1.5M", 1_500_000), ("2GB", 2_000_000_000),
            ("1KiB", 1_024), ("1.5mib", 1_572_864), ("1Gi", 1_073_741_824), ("99999999999G", 1 << 62), (".5k", 500),
        ] as [(String, Int64)])
    func bytesHaveSuffixes(text: String, bytes: Int64) {
        #expect(Figures.byteCount(text) == bytes)
    }

    @Test(arguments: ["", "k", "1T", "-1", "1e3", "0x10", "1 k", "1kk", "1.2.3", "\u{0665}", "inf", "."])
    func anInvalidByteCountIsNil(text: String) {
        #expect(Figures.byteCount(text) == nil)
    }
}
