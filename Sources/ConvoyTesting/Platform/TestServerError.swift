/// Why a ``TestServer`` could not start, or why a wait for one of its events failed.
public enum TestServerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The system call `call` failed, usually because no descriptors are left or the port is in use.
    ///
    /// `code` is `errno`.
    case cannotListen(call: String, code: Int32)
    /// The time limit of a wait has passed.
    ///
    /// The description names the awaited event.
    case timedOut(waitingFor: String, bound: Duration)
    /// The server was shut down before the awaited event.
    case shutDown
    /// The waiting task was cancelled.
    case cancelled
    /// The server was made with ``RequestRecording/none``, so it has no recorded requests to return.
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
