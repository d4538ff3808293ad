import Testing

@testable import ConvoyCommand

/// Tests the tables of subcommands and options, and the completion scripts that are made from these tables.
@Suite struct CompletionsTests {
    @Test(arguments: Shell.allCases) func everyCommandAndOptionIsInEveryScript(shell: Shell) {
        let script = shell.completions
        for command in Subcommand.allCases {
            #expect(script.contains(command.rawValue))
            for option in command.options {
                #expect(script.contains(shell == .fish ? "-l \(option.name) " : "--\(option.name)"))
            }
        }
        for value in ["overwrite", "fail", "rename", "skip", "curl", "urlsession", "bash", "zsh", "fish"] {
            #expect(script.contains(value))
        }
    }

    /// Quotes, brackets and similar characters in a summary would need more quoting in the scripts.
    @Test func summariesAreShortAndPlain() {
        for option in Subcommand.allCases.flatMap(\.options) + Subcommand.toolOptions {
            #expect((1...50).contains(option.summary.count))
            #expect(option.summary.allSatisfy { $0.isASCII && !"'\"[]()\\$`:".contains($0) })
        }
        for command in Subcommand.allCases { #expect(!command.summary.contains("'")) }
    }

    @Test func namesAreUnique() {
        for command in Subcommand.allCases {
            #expect(Set(command.options.map(\.name)).count == command.options.count)
            let letters = command.options.compactMap(\.short)
            #expect(Set(letters).count == letters.count)
        }
    }

    @Test func theHelpHasEveryOptionAndNoOther() {
        for command in Subcommand.allCases {
            for option in command.options {
                let spelling = option.short.map { "-\($0), --\(option.name)" } ?? "    --\(option.name)"
                let word = option.valueUsage
                let line = command.help.split(separator: "\n").first { $0.hasPrefix("  \(spelling)\(word)") }
                #expect(line != nil, "\(command.rawValue) \(spelling)\(word)")
            }
            let described = command.help.matches(of: #/(?m)^  (?:-.,|   ) --([a-z0-9-]+)/#).map { String($0.1) }
            #expect(described.count >= (command == .fetch ? 19 : 0))
            #expect(Set(described).isSubset(of: command.options.map(\.name)))
        }
    }

    @Test func quotesAreQuoted() {
        #expect("it's".shellQuoted == #"'it'\''s'"#)
    }
}
