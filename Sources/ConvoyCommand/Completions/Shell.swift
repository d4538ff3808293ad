// `convoy completions`: scripts that complete the command, made from the tables that parse it.

/// A shell that completes commands.
enum Shell: String, CaseIterable, Sendable {
    case bash
    case zsh
    case fish

    /// The shell that was named.
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
    /// What stands in place of a command.
    static let toolOptions = [
        Option.help, Option("version", summary: "print the version"),
    ]
}

extension String {
    /// The text as one word of a shell, whatever is in it.
    var shellQuoted: String { "'" + replacing("'", with: #"'\''"#) + "'" }
}
