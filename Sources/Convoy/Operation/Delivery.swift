// Where callbacks run: in place, on a queue, on a run loop in some modes, or on the main actor.
import Foundation

enum CallbackPlace: Sendable {
    /// At once, on the thread that finishes the operation, perhaps a transport's. Only for handlers of the library that
    /// dispatch their work elsewhere.
    case here
    case executor
    /// After all earlier handlers on the serial executor, or at once if none is left. Only for handlers of the library.
    case inTurn
    /// As `inTurn`, but for the caller's handlers, and on the serial executor inside another callback in place.
    case inPlace
    case elsewhere(@Sendable (_ work: @escaping @Sendable () -> Void, QualityOfService) -> Void)

    /// Whether a handler that was dispatched with this place runs on the thread that finishes the operation.
    var isHere: Bool {
        switch self {
        case .here, .inTurn, .inPlace: true
        case .executor, .elsewhere: false
        }
    }
    /// Whether only the library has such handlers, and they are called where the operation finishes.
    var isOwn: Bool {
        switch self {
        case .here, .inTurn: true
        case .executor, .inPlace, .elsewhere: false
        }
    }
    var isExecutor: Bool { if case .executor = self { true } else { false } }
}

/// Where a callback runs: a queue, a run loop with its modes, or in place.
///
/// Callbacks never run under a lock. They run on a transport's thread only with ``inPlace``, because a slow callback
/// there would delay other requests.
///
/// ```swift
/// operation.onFinish(on: .main) { show($0) }  // `MainDelivery`
/// operation.onFinish(on: .queue(queue)) { result in print(result) }
/// operation.onFinish(on: .runLoop(loop, modes: [.default])) { print($0) }
/// ```
///
/// On the main run loop, use `MainActor.assumeIsolated` to reach state of the main actor. The compiler cannot know that
/// the loop runs on the main thread. On another thread that call traps.
///
/// ## Concurrency
/// The library passes a run loop between threads only to schedule work on it. Only this use of a run loop is allowed
/// from any thread.
public struct Delivery: Sendable {
    let place: CallbackPlace

    /// At once, on the thread that finishes the operation or moves its bytes, as KVO does.
    ///
    /// The callback must not wait.
    ///
    /// This is the cheapest delivery, because no other thread is involved. The thread may be a transport's, the thread
    /// that cancels, or the thread that adds a handler to a finished operation. A slow callback delays all transfers of
    /// that thread. **A callback that waits for another operation may deadlock.**
    ///
    /// Callbacks of one operation keep their order. If an earlier callback runs on the operation's serial executor, the
    /// next one runs there too. Callbacks in place do not nest. If a callback cancels another operation, for example,
    /// the callback of that operation runs on its serial executor. Decoding and building a chain's link always use the
    /// serial executor.
    /// ```swift
    /// let manager = RequestManager(configuration: .init(callbacks: .inPlace))
    /// manager.enqueue(Request<Data>.get(url)) { continuation.yield($0) }
    /// ```
    public static var inPlace: Delivery { Delivery(place: .inPlace) }

    /// On a dispatch queue.
    ///
    /// On a concurrent queue, several callbacks may run at once and in any order.
    ///
    /// The callbacks run with the operation's quality of service, or with the queue's if that of the operation is
    /// `.default`.
    public static func queue(_ queue: DispatchQueue) -> Delivery {
        Delivery(place: .elsewhere { work, quality in queue.async(qos: DispatchQoS(quality), execute: work) })
    }

    /// On an operation queue, each callback as an operation.
    ///
    /// The callbacks run with the operation's quality of service, unless that is `.default`. A suspended queue delays
    /// the callbacks.
    public static func operationQueue(_ queue: OperationQueue) -> Delivery {
        Delivery(
            place: .elsewhere { work, quality in
                guard quality != .default else { return queue.addOperation(work) }
                let operation = BlockOperation(block: work)
                operation.qualityOfService = quality
                queue.addOperation(operation)
            })
    }

    /// On a run loop, whenever it runs in one of the modes.
    ///
    /// On a loop that never runs again, the callback never runs.
    ///
    /// - Parameters:
    ///   - loop: the run loop. It is woken on Linux too, where `RunLoop.perform` alone would let it sleep.
    ///   - modes: the modes; `.default` by default.
    public static func runLoop(_ loop: RunLoop, modes: [RunLoop.Mode] = [.default]) -> Delivery {
        let waker = RunLoopWaker(loop, modes: modes)
        return Delivery(place: .elsewhere { work, _ in waker.perform(work) })
    }
}

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

    // The current thread must be the main thread. No other code of the library assumes main actor isolation.
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

/// Inside one, the next callback runs on the serial executor: hundreds of nested callbacks would overflow the stack.
enum CallbackInPlace {
    private final class Mark: Sendable {}

    private static let mark = Mark()
    private static let current = ThreadSlot<Mark>()

    static var isRunning: Bool { current.value != nil }

    static func run(_ callback: () -> Void) {
        // The callback may wait for what this thread has postponed, or for what it begins itself.
        WakeUps.performPostponed()
        WakeUps.current.with(nil) { current.with(mark, callback) }
    }
}

extension DispatchQoS {
    init(_ quality: QualityOfService) {
        self =
            switch quality {
            case .userInteractive: .userInteractive
            case .userInitiated: .userInitiated
            case .utility: .utility
            case .background: .background
            default: .unspecified
            }
    }
}

final class RunLoopWaker: @unchecked Sendable {
    // @unchecked: `RunLoop` is not Sendable. This class only adds timers and blocks, which CFRunLoop guards with its
    // own locks.
    private let loop: RunLoop
    private let modes: [RunLoop.Mode]

    init(_ loop: RunLoop, modes: [RunLoop.Mode]) {
        (self.loop, self.modes) = (loop, modes)
    }

    func perform(_ work: @escaping @Sendable () -> Void) {
        #if canImport(Darwin)
            loop.perform(inModes: modes, block: work)
            CFRunLoopWakeUp(loop.getCFRunLoop())
        #else
            // `perform` of swift-corelibs-foundation does not wake the loop, and `CFRunLoopWakeUp` is not public there.
            // With a distant timer, delays of 0.75 to 2 s were measured. Adding a timer re-arms the loop's clock and
            // wakes the loop within a fraction of a millisecond. One timer serves several modes, and fires once.
            let timer = Timer(fire: Date(timeIntervalSinceNow: 0), interval: 0, repeats: false) { _ in work() }
            for mode in modes { loop.add(timer, forMode: mode) }
        #endif
    }
}

extension AnyRequestOperation: ExecutorMember {
    func place(_ delivery: Delivery?) -> CallbackPlace {
        (delivery ?? scheduler.callbacks)?.place ?? .executor
    }

    func onExecutor(_ work: @escaping @Sendable () -> Void) {
        if withLock({ $0.executor.add(work) }) { scheduler.executors(qualityOfService).submit(self) }
    }

    func runExecutor() {
        while let pieces = withLock({ $0.executor.take() }) {
            for piece in pieces { piece() }
        }
    }
}
