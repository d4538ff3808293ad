// Events of operations as notifications.
import Foundation

/// Posts a notification when an operation starts, finishes, is suspended or resumed, with the operation as its
/// object.
///
/// AFNetworking posts similar notifications. A manager without this monitor posts none. Requests that share a transfer
/// (``Request/coalesced()``) post only their end. The transfer is an operation of its own, which posts its start and
/// its end.
///
/// ```swift
/// let manager = RequestManager(
///     configuration: .init(monitors: [NotificationMonitor()]))
/// let observer = NotificationCenter.default.addObserver(
///     forName: .requestOperationDidFinish, object: nil, queue: .main
/// ) { print($0.userInfo?[NotificationMonitor.errorKey] ?? "success") }
/// ```
///
/// ## Concurrency
/// Notifications are posted on the manager's queue for monitors, in order and without a lock. An observer without its
/// own queue runs on the queue for monitors. A slow observer delays other monitors, but no request.
///
/// ## Topics
/// - ``init(center:)``
/// - ``errorKey``
public struct NotificationMonitor: EventMonitor, @unchecked Sendable {
    // @unchecked: any thread may use a notification center, but not all platforms declare it.
    private let center: NotificationCenter

    /// Makes a monitor that posts to a notification center.
    public init(center: NotificationCenter = .default) { self.center = center }

    /// The key of the ``RequestError`` in the `userInfo` of `Notification.Name.requestOperationDidFinish`.
    ///
    /// Absent after a success.
    public static let errorKey = "ConvoyRequestError"

    /// Posts the notification of the event, if the event has one.
    public func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        switch event {
        // Only the first attempt is a start.
        case .started(attempt: 1): center.post(name: .requestOperationDidStart, object: operation)
        case .suspended: center.post(name: .requestOperationDidSuspend, object: operation)
        case .resumed: center.post(name: .requestOperationDidResume, object: operation)
        case .finished(let error):
            center.post(
                name: .requestOperationDidFinish, object: operation, userInfo: error.map { [Self.errorKey: $0] })
        case .queued, .started, .response, .progress, .attemptEnded: break
        }
    }
}

extension Notification.Name {
    /// The first attempt of an operation has started.
    ///
    /// Posted by a ``NotificationMonitor``.
    public static let requestOperationDidStart = Notification.Name("ConvoyRequestOperationDidStart")
    /// An operation has its outcome, even if it never started.
    public static let requestOperationDidFinish = Notification.Name("ConvoyRequestOperationDidFinish")
    /// An operation was suspended, itself or with its group.
    public static let requestOperationDidSuspend = Notification.Name("ConvoyRequestOperationDidSuspend")
    /// An operation was resumed, itself or with its group.
    public static let requestOperationDidResume = Notification.Name("ConvoyRequestOperationDidResume")
}
