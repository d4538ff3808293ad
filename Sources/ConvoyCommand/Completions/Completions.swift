// `convoy completions`: completion scripts, generated from the parser's tables.

extension Shell {
    /// The completion script of the shell.
    var completions: String {
        switch self {
        case .bash: BashCompletions.script
        case .zsh: ZshCompletions.script
        case .fish: FishCompletions.script
        }
    }
}

extension String {
    /// The text quoted as one word of a shell.
    var shellQuoted: String { "'" + replacing("'", with: #"'\''"#) + "'" }
}
