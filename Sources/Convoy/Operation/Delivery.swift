// On which queue, or on which run loop and in which modes, callbacks run.
import Foundation

/// Where a handler runs.
enum CallbackPlace: Sendable {
    /// At once, on the finishing thread, perhaps a transport's: for the library's own handlers, which only hand over.
    case here
    /// On the operation's serial executor.
    case executor
    /// After all earlier handlers on the operation's serial executor; if none is left, at once on the finishing thread: for the library's
    /// own handlers.
    case inTurn
    /// The same for the caller's, but never inside another one of them: then on the serial executor.
    case inPlace
    /// Where the caller asked for.
    case elsewhere(Delivery)

    /// Whether a handler that has taken its turn runs on the finishing thread.
    var isHere: Bool {
        switch self {
        case .here, .inTurn, .inPlace: true
        case .executor, .elsewhere: false
        }
    }
    var isExecutor: Bool { if case .executor = self { true } else { false } }

    init(_ delivery: Delivery?) {
        guard let delivery else {
            self = .executor
            return
        }
        self = delivery.isInPlace ? .inPlace : .elsewhere(delivery)
    }
}

/// Where a callback runs: a queue, a run loop with its modes, or in place.
///
/// One value, so that two at once cannot be said.
///
/// Callbacks never run under a lock, and never on a transport's thread, where one that takes its time would hold up other
/// requests, unless they ask for it: ``inPlace``.
///
/// ```swift
/// operation.onFinish(on: .main) { show($0) }  // `MainDelivery`
/// operation.onFinish(on: .queue(queue)) { result in print(result) }
/// operation.onFinish(on: .runLoop(loop, modes: [.default])) { print($0) }
/// ```
///
/// On the main run loop what belongs to the main actor is used by `MainActor.assumeIsolated`: the compiler cannot know that
/// this is its thread. Anywhere else that call traps.
///
/// ## Concurrency
/// A run loop is handed from thread to thread only to be told to run something, which is the one use of it that is
/// allowed from any thread.
public struct Delivery: Sendable {
    /// nil: in place.
    private let runsOn: (@Sendable (_ work: @escaping @Sendable () -> Void, _ quality: QualityOfService) -> Void)?

    var isInPlace: Bool { runsOn == nil }

    /// At once, on whichever thread ends the operation or moves its bytes, as KVO does: for callbacks that do not wait.
    ///
    /// The cheapest place: nothing is handed to another thread. That thread may be a transport's, the one that cancels, or the
    /// one that adds a handler to an operation that has finished. A callback that takes its time holds up all transfers of
    /// that thread; **one that waits for another operation may wait for ever**.
    ///
    /// Callbacks of one operation keep their order: behind one that was added before and runs on the operation's serial executor, this
    /// one runs there too. So does one that comes due inside another callback in place, of an operation that this one cancels
    /// or has refused for example: callbacks in place do not nest, however many follow one another. What has to be decoded,
    /// and a chain's link, is still decoded and built on the serial executor.
    ///
    /// ```swift
    /// let manager = RequestManager(configuration: .init(callbacks: .inPlace))
    /// manager.enqueue(Request<Data>.get(url)) { continuation.yield($0) }
    /// ```
    public static var inPlace: Delivery { Delivery(runsOn: nil) }

    /// On a dispatch queue.
    ///
    /// On a concurrent one, several callbacks may run at once and in any order. They have the operation's quality of service,
    /// or the queue's where the operation has none.
    public static func queue(_ queue: DispatchQueue) -> Delivery {
        Delivery(runsOn: { work, quality in queue.async(qos: DispatchQoS(quality), execute: work) })
    }

    /// On an operation queue, as an operation each, with the quality of service of the request's; a suspended queue holds them
    /// back.
    public static func operationQueue(_ queue: OperationQueue) -> Delivery {
        Delivery(runsOn: { work, quality in
            guard quality != .default else { return queue.addOperation(work) }
            let operation = BlockOperation(block: work)
            operation.qualityOfService = quality
            queue.addOperation(operation)
        })
    }

    /// On a run loop, whenever it runs in one of the modes.
    ///
    /// A loop that never runs again never calls.
    ///
    /// - Parameters:
    ///   - loop: the run loop; it is woken, on Linux too, where `RunLoop.perform` alone would let it sleep.
    ///   - modes: the modes; `.default` by default.
    public static func runLoop(_ loop: RunLoop, modes: [RunLoop.Mode] = [.default]) -> Delivery {
        let waker = RunLoopWaker(loop, modes: modes)
        return Delivery(runsOn: { work, _ in waker.perform(work) })
    }

    /// Runs something there.
    func run(_ work: @escaping @Sendable () -> Void, _ quality: QualityOfService) {
        if let runsOn { runsOn(work, quality) } else { work() }
    }
}

/// Whether this thread is inside a callback in place.
///
/// Callbacks that end other operations, which call back in place too, would overflow the stack after some hundreds.
enum CallbackInPlace {
    // A thread's own word costs a few nanoseconds; its dictionary a hundred.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    static var isRunning: Bool { pthread_getspecific(key) != nil }

    /// Runs a callback.
    static func run(_ callback: () -> Void) {
        let outer = pthread_getspecific(key)
        pthread_setspecific(key, UnsafeRawPointer(bitPattern: 1))
        callback()
        pthread_setspecific(key, outer)
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

/// A run loop that other threads may have something run on.
final class RunLoopWaker: @unchecked Sendable {
    // @unchecked: `RunLoop` is not Sendable. It is used here only to add timers and blocks, which CFRunLoop guards with
    // locks of its own; everything else of it stays on its thread.
    private let loop: RunLoop
    private let modes: [RunLoop.Mode]

    init(_ loop: RunLoop, modes: [RunLoop.Mode]) {
        self.loop = loop
        self.modes = modes
    }

    /// Runs something on the loop, once, when it runs in one of the modes.
    func perform(_ work: @escaping @Sendable () -> Void) {
        #if canImport(Darwin)
            loop.perform(inModes: modes, block: work)
            CFRunLoopWakeUp(loop.getCFRunLoop())
        #else
            // `perform` of swift-corelibs-foundation does not wake the loop (0.75 to 2 s measured with another timer far
            // off) and there is no other call that does; adding a timer re-arms the loop's clock, which does so within a
            // fraction of a millisecond. In several modes one timer serves; it fires once.
            let timer = Timer(fire: Date(timeIntervalSinceNow: 0), interval: 0, repeats: false) { _ in work() }
            for mode in modes { loop.add(timer, forMode: mode) }
        #endif
    }
}

extension AnyRequestOperation: ExecutorMember {
    /// Runs something of the user's, after what was asked for before, one after the other.
    func onExecutor(_ work: @escaping @Sendable () -> Void) {
        if state.withLock({ $0.executor.add(work) }) { context.executors(qualityOfService).submit(self) }
    }

    func runExecutor() {
        while let pieces = state.withLock({ $0.executor.take() }) {
            for piece in pieces { piece() }
        }
    }
}
