// The shells of `convoy completions`.

/// A supported shell.
enum Shell: String, CaseIterable, Sendable {
    case bash, zsh, fish

    /// Parses the only operand as the name of a shell.
    init(parsing operands: [String]) throws(UsageError) {
        let names = Shell.allCases.map(\.rawValue).joined(separator: ", ")
        guard operands.count == 1 else {
            throw UsageError("completions takes one shell (\(names)), not \(operands.count)")
        }
        guard let shell = Shell(rawValue: operands[0]) else {
            throw UsageError("no completions for \(operands[0].debugDescription); the shells are \(names)")
        }
        self = shell
    }
}
