// What happens to a request, as events.

/// Something that happened to a request operation, in order.
public enum RequestEvent: Sendable {
    /// A manager has taken it.
    case queued
    /// An attempt begins; the first has number 1.
    case started(attempt: Int)
    /// The head of a response arrived.
    case response(ResponseHead)
    /// Bytes moved. Readers that are behind get the latest count only.
    case progress(TransferProgress)
    /// An attempt has ended, and another follows; ``AttemptRecord/next`` says why.
    case attemptEnded(AttemptRecord)
    /// It was suspended by its owner.
    case suspended
    /// It was resumed by its owner.
    case resumed
    /// The outcome; nil is success. Nothing follows.
    case finished(RequestError?)

    var isProgress: Bool { if case .progress = self { true } else { false } }
    var isFinished: Bool { if case .finished = self { true } else { false } }
}

/// A monitor that wants to see the bodies of answers.
protocol BodyKeepingMonitor: EventMonitor {
    /// How large a body in memory may be to be kept in the outcome; 0 for none.
    var keptBodyBytes: Int { get }
}

/// Watches all operations of a manager: logging, metrics, traces.
///
/// ```swift
/// struct Log: EventMonitor {
///     func operation(
///         _ operation: AnyRequestOperation, did event: RequestEvent
///     ) { print(operation, event) }
/// }
/// ```
///
/// - Thread: one serial queue of the manager's, in order for each operation; never a transport's thread.
public protocol EventMonitor: Sendable {
    /// Something happened.
    func operation(_ operation: AnyRequestOperation, did event: RequestEvent)

    /// An operation was enqueued that had finished, and is not sent again; by default nothing is done.
    ///
    /// No event: what happens to an operation ends with `.finished`.
    func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError)
}

extension EventMonitor {
    /// Does nothing.
    public func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) {}
}
