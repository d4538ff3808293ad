// The exit status of the process.

/// The exit statuses of the command; its help texts list them.
enum ExitStatus: Int32, Sendable {
    case success = 0
    /// A request or another step failed, or the command could not write its output.
    case failure = 1
    /// The command could not start, for example because of an invalid option.
    case usage = 2
    // The number for a signal is 128 plus the signal, as in shells.
    case hangUp = 129
    case interrupted = 130
    case terminated = 143
    /// Standard output was closed.
    case outputClosed = 141

    var code: Int32 { rawValue }

    /// The reason for a cancelled run in a summary; nil for other statuses.
    var reason: String? {
        switch self {
        case .interrupted: "interrupted"
        case .terminated: "terminated"
        case .hangUp: "hung up"
        case .success, .failure, .usage, .outputClosed: nil
        }
    }
}

/// The error for a command line that cannot be used, or that names a file that cannot be used.
///
/// The message is one line. It says why, and what to do instead.
struct UsageError: Error, Equatable {
    let message: String

    init(_ message: String) { self.message = message }

    /// The error for two options that cannot be used together.
    static func exclusion(_ first: String, _ second: String) -> UsageError {
        UsageError("\(first) and \(second) exclude each other; remove one of them")
    }
}
