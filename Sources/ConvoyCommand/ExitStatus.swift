// What the process ends with.

/// The exit statuses of the command; its help texts list them.
enum ExitStatus: Sendable, Equatable {
    case success
    /// Some requests failed, or a scene of the demo did not do what it should.
    case failure
    /// Nothing was run.
    case usage
    case hangUp
    case interrupted
    case terminated
    /// Standard output was closed.
    case outputClosed

    /// The number; those of signals as shells give them.
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

    /// How a summary names the reason why everything was cancelled; nil when it says nothing.
    var reason: String? {
        switch self {
        case .interrupted: "interrupted"
        case .terminated: "terminated"
        case .hangUp: "hung up"
        case .success, .failure, .usage, .outputClosed: nil
        }
    }
}
