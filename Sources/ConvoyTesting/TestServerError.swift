/// Why a ``TestServer`` could not start, or why a wait for it ended without what was waited for.
public enum TestServerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The system refused a socket, most often for lack of descriptors or because the port is taken; `code` is `errno`.
    case cannotListen(call: String, code: Int32)
    /// The bound of a wait passed; the description says what was waited for.
    case timedOut(waitingFor: String, bound: Duration)
    /// The server was shut down before what was waited for happened.
    case shutDown
    /// The task that waited was cancelled.
    case cancelled
    /// The server was made with ``RequestRecording/none``, so there are no requests to take.
    case recordsNothing

    /// One sentence for the log of a test.
    public var description: String {
        switch self {
        case .cannotListen(let call, let code):
            "The test server could not listen: \(call) failed with errno \(code)."
        case .timedOut(let what, let bound):
            "Waited \(bound) for \(what); it did not happen."
        case .shutDown:
            "The test server was shut down during the wait."
        case .cancelled:
            "The task that waited for the test server was cancelled."
        case .recordsNothing:
            "The test server records no requests; make it with recording .all or .last(n)."
        }
    }
}
