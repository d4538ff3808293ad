// The events of a request, and the protocols of the monitors that receive them.

/// An event of a request operation.
public enum RequestEvent: Sendable {
    /// The operation was assigned to a manager, which schedules it.
    case queued
    /// An attempt begins. The first has number 1.
    case started(attempt: Int)
    /// The head of a response arrived.
    case response(ResponseHead)
    /// Bytes moved. Slow readers get only the latest count.
    case progress(TransferProgress)
    /// An attempt has ended, and another follows. ``AttemptRecord/next`` says why.
    case attemptEnded(AttemptRecord)
    /// The operation was suspended, itself or with its group.
    case suspended
    /// The operation was resumed, itself or with its group.
    case resumed
    /// The operation has its outcome; nil is success. No event follows.
    case finished(RequestError?)

    var isProgress: Bool { if case .progress = self { true } else { false } }
    var isFinished: Bool { if case .finished = self { true } else { false } }
}

/// A monitor that receives the bodies of responses.
protocol BodyKeepingMonitor: EventMonitor {
    /// The size in bytes of the largest body that the outcome stores in memory; 0 for none.
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

    /// Called when an operation was enqueued that had already finished; the operation is not sent.
    ///
    /// By default this method does nothing.
    ///
    /// The call is not an event, because the events of an operation end with `.finished`.
    func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError)
}

extension EventMonitor {
    /// Does nothing.
    public func operation(_ operation: AnyRequestOperation, wasRefused error: RequestError) {}
}
