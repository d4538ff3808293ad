// Callbacks on the main actor.
import Foundation

/// The main actor as the place of a callback.
///
/// Callbacks run on the main queue, in order.
///
/// This type is separate from ``Delivery``, so the compiler knows that the callback may use state of the main actor.
///
/// ```swift
/// operation.onFinish(on: .main) { result in label.text = "\(result)" }
/// operation.onProgress(on: .main, every: .milliseconds(100)) {
///     bar.progress = $0.download.fractionCompleted ?? 0
/// }
/// ```
///
/// The main queue runs callbacks only while the main thread is in a run loop, in `dispatchMain()` or suspended in an
/// asynchronous `main`.
public struct MainDelivery: Sendable {
    /// The main actor.
    public static var main: MainDelivery { MainDelivery() }

    /// The only place in the library that assumes main actor isolation.
    func run<Value: Sendable>(_ value: Value, _ handler: @escaping @MainActor (Value) -> Void) {
        // The main queue is the main actor's executor, on Linux too.
        MainActor.assumeIsolated { handler(value) }
    }
}

extension Delivery {
    /// On the main queue.
    ///
    /// In calls that accept both types, such as `onFinish(on: .main)`, `.main` means ``MainDelivery``.
    @_disfavoredOverload
    public static var main: Delivery { .queue(.main) }
}

extension RequestOperation {
    /// Adds a handler for the outcome that runs on the main actor.
    ///
    /// The handler is called as with ``onFinish(on:_:)-(Delivery?,_)``. Handlers on the main actor run in the order in
    /// which they were added.
    ///
    /// - Parameters:
    ///   - delivery: `.main`.
    ///   - handler: receives the outcome, on the main queue. If `onFinish` is called on the main actor, the handler
    ///     runs after `onFinish` has returned.
    @discardableResult
    public func onFinish(on delivery: MainDelivery, _ handler: @escaping @MainActor (Result) -> Void) -> Self {
        onFinish(on: .queue(.main)) { delivery.run($0, handler) }
    }
}

extension AnyRequestOperation {
    /// Adds a handler for byte progress that runs on the main actor.
    ///
    /// As with ``onProgress(on:every:_:)-(Delivery?,_,_)``, at most one call is waiting.
    ///
    /// - Parameters:
    ///   - delivery: `.main`.
    ///   - interval: the minimum time between two calls. With nil, the default, the next call may follow as soon as
    ///     the one before has returned.
    ///   - handler: receives the counts, on the main queue.
    @discardableResult
    public final func onProgress(
        on delivery: MainDelivery, every interval: Duration? = nil,
        _ handler: @escaping @MainActor (TransferProgress) -> Void
    ) -> Self {
        onProgress(on: .queue(.main), every: interval) { delivery.run($0, handler) }
    }
}
