enum ExitStatus: Int32, Sendable {
    case success = 0
    case failure = 1
    case usage = 2
    // The number for a signal is 128 plus the signal, as in shells.
    case hangUp = 129
    case interrupted = 130
    case terminated = 143
    case outputClosed = 141

    var code: Int32 { rawValue }

    var reason: String? {
        switch self {
        case .interrupted: "interrupted"
        case .terminated: "terminated"
        case .hangUp: "hung up"
        case .success, .failure, .usage, .outputClosed: nil
        }
    }
}

// The message is one line. It says why, and what to do instead.
struct UsageError: Error, Equatable {
    let message: String

    init(_ message: String) { self.message = message }

    static func exclusion(_ first: String, _ second: String) -> UsageError {
        UsageError("\(first) and \(second) exclude each other; remove one of them")
    }
}
