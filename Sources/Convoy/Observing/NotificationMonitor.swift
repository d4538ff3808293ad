// What happens to operations, as notifications.
import Foundation

/// Posts a notification when an operation starts, finishes, is suspended or resumed, with the operation as its object.
///
/// As AFNetworking did, and only where a manager has been given one: others pay nothing.
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
/// Notifications are posted on the manager's queue for monitors, in order, with no lock held. An observer without a queue of
/// its own runs there: one that takes its time delays other monitors, never a request.
///
/// ## Topics
/// - ``init(center:)``
/// - ``errorKey``
public struct NotificationMonitor: EventMonitor, @unchecked Sendable {
    // @unchecked: a notification center may be used from any thread, and does not say so on all platforms.
    private let center: NotificationCenter

    /// Makes a monitor that posts to a notification center.
    public init(center: NotificationCenter = .default) { self.center = center }

    /// The key of the ``RequestError`` in the `userInfo` of `Notification.Name.requestOperationDidFinish`; after
    /// a success there is none.
    public static let errorKey = "ConvoyRequestError"

    /// Posts the notification of the event, if it has one.
    public func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        switch event {
        // Further attempts are no starts.
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
    /// The first attempt of an operation has begun; posted by a ``NotificationMonitor``.
    public static let requestOperationDidStart = Notification.Name("ConvoyRequestOperationDidStart")
    /// An operation has its outcome, whatever that is; one that never started has one too.
    public static let requestOperationDidFinish = Notification.Name("ConvoyRequestOperationDidFinish")
    /// An operation was suspended by its owner.
    public static let requestOperationDidSuspend = Notification.Name("ConvoyRequestOperationDidSuspend")
    /// An operation was resumed by its owner.
    public static let requestOperationDidResume = Notification.Name("ConvoyRequestOperationDidResume")
}
