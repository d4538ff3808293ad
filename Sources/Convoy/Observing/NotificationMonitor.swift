// Events of operations as notifications.
import Foundation

/// Posts a notification when an operation, its object, starts, finishes, is suspended or resumed, as AFNetworking does.
///
/// Requests that share a transfer (``Request/coalesced()``) post only their end. The transfer is an operation of its
/// own, which posts its start and its end.
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
/// Notifications are posted on the manager's queue for monitors, in order and without a lock; an observer without its
/// own queue runs there. A slow observer delays other monitors, but no request.
///
/// ## Topics
/// - ``init(center:)``
/// - ``errorKey``
public struct NotificationMonitor: EventMonitor, @unchecked Sendable {
    // @unchecked: any thread may use a notification center, but not all platforms declare it.
    private let center: NotificationCenter

    /// Makes a monitor that posts to a notification center.
    public init(center: NotificationCenter = .default) { self.center = center }

    /// The key of the ``RequestError`` in the `userInfo` of `requestOperationDidFinish`; absent after a success.
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
    /// The first attempt of an operation has started, as a ``NotificationMonitor`` posts.
    public static let requestOperationDidStart = Notification.Name("ConvoyRequestOperationDidStart")
    /// An operation has its outcome, even if it never started.
    public static let requestOperationDidFinish = Notification.Name("ConvoyRequestOperationDidFinish")
    /// An operation was suspended, itself or with its group.
    public static let requestOperationDidSuspend = Notification.Name("ConvoyRequestOperationDidSuspend")
    /// An operation was resumed, itself or with its group.
    public static let requestOperationDidResume = Notification.Name("ConvoyRequestOperationDidResume")
}
