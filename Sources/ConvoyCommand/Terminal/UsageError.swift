// Errors of command lines.

/// An error in a command line, found before any request is sent.
struct UsageError: Error, Equatable {
    let message: String
    /// The subcommand whose help ``hint`` names; nil for the complete help.
    let command: String?

    init(_ message: String, command: String? = nil) {
        self.message = message
        self.command = command
    }

    /// A sentence that names the help to read.
    var hint: String { "Try 'convoy \(command.map { $0 + " " } ?? "")--help'." }
}
