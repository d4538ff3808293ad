// A command line or a file that the command cannot use.

/// The error for a command line that cannot be used, or that names a file that cannot be used.
///
/// The message is one line. It says why, and what to do instead.
struct UsageError: Error, Equatable {
    let message: String

    init(_ message: String) { self.message = message }
}

extension UsageError {
    /// The error for two options that cannot be used together.
    static func exclusion(_ first: String, _ second: String) -> UsageError {
        UsageError("\(first) and \(second) exclude each other; remove one of them")
    }
}
