// A command line or a file that the command cannot use.

/// The command line cannot be used, or a file that it names: one line that says why and what to do instead.
struct UsageError: Error, Equatable {
    let message: String

    init(_ message: String) { self.message = message }
}

extension UsageError {
    /// Two options that cannot be used together.
    static func exclusion(_ first: String, _ second: String) -> UsageError {
        UsageError("\(first) and \(second) exclude each other; remove one of them")
    }
}
