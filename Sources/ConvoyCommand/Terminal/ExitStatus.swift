// The exit status of the process.

/// The exit statuses of the command; its help texts list them.
enum ExitStatus: Sendable, Equatable {
    case success
    /// Something failed, for example a request, or could not be written.
    case failure
    /// The command could not start, for example because of an invalid option.
    case usage
    case hangUp
    case interrupted
    case terminated
    /// Standard output was closed.
    case outputClosed

    /// The number that the process returns.
    ///
    /// The number for a signal is 128 plus the signal, as in shells.
    var code: Int32 {
        switch self {
        case .success: 0
        case .failure: 1
        case .usage: 2
        case .hangUp: 129
        case .interrupted: 130
        case .outputClosed: 141
        case .terminated: 143
        }
    }

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
