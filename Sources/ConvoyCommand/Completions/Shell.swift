// `convoy completions`: completion scripts, generated from the parser's tables.

/// A supported shell.
enum Shell: String, CaseIterable, Sendable {
    case bash
    case zsh
    case fish

    /// The shell named by the operand.
    init(parsing operands: [String]) throws(UsageError) {
        let names = Shell.allCases.map(\.rawValue).joined(separator: ", ")
        guard operands.count == 1 else {
            throw UsageError(
                "completions takes one shell (\(names)), and got \(operands.count)", command: "completions")
        }
        guard let shell = Shell(rawValue: operands[0]) else {
            throw UsageError(
                "there are no completions for \(operands[0].debugDescription); there are for \(names)",
                command: "completions")
        }
        self = shell
    }

    /// The script.
    var completions: String {
        switch self {
        case .bash: BashCompletions.script
        case .zsh: ZshCompletions.script
        case .fish: FishCompletions.script
        }
    }
}

extension Subcommand {
    /// The options that are allowed in place of a command.
    static let toolOptions = [
        Option.help, Option("version", summary: "print the version"),
    ]
}

extension String {
    /// The text quoted as one word of a shell.
    var shellQuoted: String { "'" + replacing("'", with: #"'\''"#) + "'" }
}
