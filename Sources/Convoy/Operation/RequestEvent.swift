// The events of a request.

/// An event of a request operation, in order.
public enum RequestEvent: Sendable {
    /// A manager has taken the operation.
    case queued
    /// An attempt begins. The first has number 1.
    case started(attempt: Int)
    /// The head of a response arrived.
    case response(ResponseHead)
    /// Bytes moved. Slow readers get only the latest count.
    case progress(TransferProgress)
    /// An attempt has ended, and another follows. ``AttemptRecord/next`` says why.
    case attemptEnded(AttemptRecord)
    /// The owner has suspended it.
    case suspended
    /// The owner has resumed it.
    case resumed
    /// The operation has its outcome; nil is success. No event follows.
    case finished(RequestError?)

    var isProgress: Bool { if case .progress = self { true } else { false } }
    var isFinished: Bool { if case .finished = self { true } else { false } }
}

/// A monitor that receives the bodies of responses.
protocol BodyKeepingMonitor: EventMonitor {
    /// The largest body in memory that the outcome keeps; 0 for none.
    var keptBodyBytes: Int { get }
}

/// Observes all operations of a manager, for logging, metrics or traces.
///
/// ```swift
/// struct Log: EventMonitor {
///     func operation(
///         _ operation: AnyRequestOperation, did event: RequestEvent
///     ) { print(operation, event) }
/// }
/// ```
///
/// - Thread: one serial queue of the manager, in order for each operation; never a transport's thread.
public protocol EventMonitor: Sendable {
    /// Called for each event.
    func operation(_ operation: AnyRequestOperation, did event: RequestEvent)

    /// Called when a finished operation was enqueued again, which is not sent.
    ///
    /// By default it does nothing.
    ///
    /// It is not an event, because the events of an operation end with `.finished`.
    func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError)
}

extension EventMonitor {
    /// Does nothing.
    public func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) {}
}
