// Errors of command lines.

/// An error in a command line.
///
/// Nothing was run.
struct UsageError: Error, Equatable {
    let message: String
    /// The subcommand whose help the message names; nil for the complete help.
    let command: String?

    init(_ message: String, command: String? = nil) {
        self.message = message
        self.command = command
    }

    /// Where to read more.
    var hint: String { "Try 'convoy \(command.map { $0 + " " } ?? "")--help'." }
}
