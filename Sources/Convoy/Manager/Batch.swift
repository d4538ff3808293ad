// Many requests as one: pulled as there is room, results in input order.
import Foundation

/// A set of requests that runs as one thing, with one progress, one end and results in input order.
///
/// Requests are taken from their source only as there is room: a lazy sequence of a million is never in memory at once.
/// ``RequestManager/cancelAll()`` ends it as ``cancel()`` does.
///
/// ```swift
/// let batch = manager.batch(urls.map { Request<Data>.get($0) })
/// for await progress in batch.progress { draw(progress.fractionCompleted) }
/// let results = await batch.results
/// ```
///
/// ## Concurrency
/// Use it from any thread. It finishes once, after every member's callbacks have returned. Letting go of it stops
/// nothing.
///
/// ## Topics
/// - ``results``
/// - ``progress``
/// - ``add(_:onResult:)``
/// - ``operation(named:)``
/// - ``cancel()``
public final class Batch<Output: Sendable>: Sendable {
    /// What each member ends with.
    public typealias Result = RequestOperation<Output>.Result

    /// A request that was added to a batch, to ask for its result.
    public struct Addition: Sendable, Hashable {
        /// How many were added before it.
        ///
        /// Its result is that far behind the results of the source in ``Batch/results``.
        public let number: Int
    }

    private let state: Locked<BatchState<Output>>
    private let manager: Scheduler
    private let window: Int
    private let failFast: Bool
    private let onResult: (@Sendable (Int, Result) -> Void)?
    private let progressSource = BroadcastSource<BatchProgress>(replaces: { _, _ in true }, repeats: ==)

    init(
        manager: Scheduler, announced: Int?, failFast: Bool, keepsResults: Bool,
        onResult: (@Sendable (Int, Result) -> Void)?
    ) {
        self.manager = manager
        self.failFast = failFast
        self.onResult = onResult
        window = max(1_024, 4 * min(1 << 20, manager.state.withLock { $0.limit }))
        state = Locked(BatchState(announced: announced, keepsResults: keepsResults))
        manager.begin(self)
    }

    /// How far it is, for any number of readers; each gets the latest, the last one when the batch has finished.
    ///
    /// No reader gets the same progress twice.
    public var progress: Broadcast<BatchProgress> { broadcast() }

    /// The same, not more often than asked for.
    ///
    /// - Parameter interval: how much time there is at least between two values of a reader, on
    ///   ``RequestManager/Configuration/clock``; the last one does not wait for it.
    public func progress(every interval: Duration) -> Broadcast<BatchProgress> {
        broadcast(BroadcastPace(interval, manager.context.clock))
    }

    /// Progress is told from now on.
    private func broadcast(_ pace: BroadcastPace? = nil) -> Broadcast<BatchProgress> {
        state.withLock { $0.isWatched = true }
        return Broadcast(source: progressSource, pace: pace)
    }

    /// How far it is now.
    public var currentProgress: BatchProgress { state.withLock { $0.meter.progress } }

    /// The results when the batch has finished: one for each request of the source that was taken or announced, in the
    /// source's order, then one for each that was added, in the order of adding.
    ///
    /// The index of a request of the source is its place there, whatever is added and whenever. An error that the source
    /// throws is its last result. A batch that is stopped lists what was announced and not taken up to 4,194,304 requests;
    /// of a source that announced more, only what was taken. Empty when the batch was made with `keepsResults: false`.
    /// Cancelling the waiting task does not cancel the batch.
    public var results: [Result] {
        get async {
            await finished()
            // A million take their time: not under the lock.
            return state.withLock { $0 }.results
        }
    }

    /// The result of a request that was added, when the batch has finished; nil when the batch keeps no results.
    ///
    /// - Parameter addition: what ``add(_:onResult:)`` of this batch has returned.
    public func result(of addition: Addition) async -> Result? {
        await finished()
        return state.withLock { $0.result(ofAdded: addition.number) }
    }

    /// Waits until the batch has finished.
    public func finished() async {
        await withCheckedContinuation { continuation in
            let isFinished = state.withLock { state in
                if !state.isFinished { state.waiters.append(continuation) }
                return state.isFinished
            }
            if isFinished { continuation.resume() }
        }
    }

    /// Cancels every member and takes no more from the source: what was announced and not taken ends as `.cancelled` too.
    ///
    /// Again, or when it has finished: no effect.
    public func cancel() { stop() }

    /// Adds a request while the batch runs; its result comes behind those of the source, which keep their indices.
    ///
    /// - Parameters:
    ///   - request: sent as there is room in the manager, and not held back until the source has ended.
    ///   - handler: called with its result, where the `onResult` of the batch is called with those of the source. The batch
    ///     finishes after it, and so it may add more.
    /// - Returns: what ``result(of:)`` is asked with, or nil when the batch has finished or was cancelled: then nothing was
    ///   added.
    /// - Thread: any.
    @discardableResult
    public func add(_ request: Request<Output>, onResult handler: (@Sendable (Result) -> Void)? = nil) -> Addition? {
        guard case .added(let number)? = submit(request, isFromSource: false, handler)?.member else { return nil }
        return Addition(number: number)
    }

    /// Takes a request from the source, when there is room; false when no more are wanted.
    func admit(_ request: Request<Output>) async -> Bool {
        guard let (_, hasRoom, isPulled) = submit(request, isFromSource: true) else { return false }
        // A member that ends at once may have stopped the batch, which cancels the task that pulls, this one.
        if hasRoom { return isPulled ? !Task.isCancelled : state.withLock { !$0.isStopped } }
        return await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state -> Bool? in
                if state.running.count < window || state.isStopped { return !state.isStopped }
                state.room = continuation
                return nil
            }
            if let goesOn { continuation.resume(returning: goesOn) }
        }
    }

    /// The source gives no more; an error of its own is its last result.
    func endSource(_ error: RequestError? = nil) {
        let (waiters, telling) = state.withLock { state -> ([CheckedContinuation<Void, Never>]?, Telling?) in
            guard !state.sourceHasEnded else { return (nil, nil) }
            state.endSource(error)
            return (state.takeFinish(), state.beginTelling())
        }
        tell(telling)
        finish(waiters)
    }

    /// Sends a request as a member; nil when no more are wanted.
    ///
    /// - Returns: the member, whether there is room for another from the source, and whether the task that pulls is known.
    private func submit(
        _ request: Request<Output>, isFromSource: Bool, _ handler: (@Sendable (Result) -> Void)? = nil
    ) -> (member: BatchMember, hasRoom: Bool, isPulled: Bool)? {
        let operation = RequestOperation(request, of: manager, isUnseen: true)
        guard let member = state.withLock({ $0.begin(isFromSource: isFromSource) }) else { return nil }
        var handler = handler
        if case .source(let index) = member, let onResult { handler = { onResult(index, $0) } }
        // Its own callback first: the batch comes last.
        operation.join(
            moved: { self.moved(member, $0) }, finished: handler, settled: { self.settled(member, $0) })
        // Where it can be cancelled only now: a callback added after its end would not be waited for.
        let (isStopped, hasRoom, isPulled) = state.withLock { state in
            let isStopped = state.run(member, operation)
            return (isStopped, !isStopped && state.running.count < window, state.pulling != nil)
        }
        if isStopped { operation.cancel() }
        manager.enqueue(operation)
        return (member, hasRoom, isPulled)
    }

    /// Holds the task that takes from the source, to cancel it.
    func pull(with task: Task<Void, Never>) {
        let isStopped = state.withLock { state in
            state.pulling = state.sourceHasEnded ? nil : task
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    private func moved(_ member: BatchMember, _ transfer: TransferProgress) {
        let now = manager.context.clock.now
        tell(
            state.withLock { state -> Telling? in
                state.move(member, transfer, at: now)
                return state.beginTelling()
            })
    }

    private func settled(_ member: BatchMember, _ result: Result) {
        let error: RequestError? = if case .failure(let error) = result { error } else { nil }
        let (room, stops, waiters, telling) = state.withLock { state in
            state.settle(member, result)
            // Not at the first free place: the source and the queue would wake each other for every request.
            let room = state.running.count <= window / 2 ? state.room : nil
            if room != nil { state.room = nil }
            // A manager that has been shut down takes no more from any batch.
            let isEnough = failFast && error != nil || error?.code == .managerShutDown
            let waiters = state.takeFinish()
            let telling = state.beginTelling()
            return (room, isEnough && !state.isStopped, waiters, telling)
        }
        tell(telling)
        if stops { stop() }
        room?.resume(returning: !stops)
        finish(waiters)
    }

    private func stop() {
        let (operations, room, pulling, waiters, telling) = state.withLock { state in
            let pulling = state.pulling
            let operations = state.running.sorted { $0.key < $1.key }.map(\.value)
            state.stop()
            defer { state.room = nil }
            let waiters = state.takeFinish()
            let telling = state.beginTelling()
            return (operations, state.room, pulling, waiters, telling)
        }
        manager.frozen { for operation in operations { operation.cancel() } }
        pulling?.cancel()
        room?.resume(returning: false)
        tell(telling)
        finish(waiters)
    }

    /// Lets those go on that waited for the end.
    ///
    /// - Parameter waiters: nil when it has not ended.
    private func finish(_ waiters: [CheckedContinuation<Void, Never>]?) {
        guard let waiters else { return }
        manager.end(self)
        for waiter in waiters { waiter.resume() }
    }

    private typealias Telling = BatchState<Output>.Telling

    /// Sends progress in the order it was made, with no lock held; the first thread that comes sends for all.
    private func tell(_ first: Telling?) {
        var next = first
        while let (progress, isLast) = next {
            if isLast { progressSource.end(with: progress) } else { progressSource.send(progress) }
            next = state.withLock { $0.goOnTelling() }
        }
    }
}

extension Batch: Undertaking {}

extension Batch: TypedDependency {
    /// An operation that finishes with the batch, with its results: for what waits for a batch.
    ///
    /// Cancelling it cancels the batch. It has been started, and belongs to no queue; each call makes another.
    ///
    /// ```swift
    /// let tiles = manager.batch(urls.map { Request<Data>.get($0) })
    /// let report = manager.operation(after: tiles) { results in
    ///     Request<Void>.post(reportURL, json: count(results))
    /// }
    /// let done = BlockOperation { print("done") }
    /// done.addDependency(tiles.operation(named: "tiles"))
    /// ```
    ///
    /// - Parameter name: what it is called in messages and logs.
    public func operation(named name: String = "a batch") -> GroupOperation<[Result]> {
        let operation = GroupOperation(named: name, manager, isManaged: false) { _ in
            await withTaskCancellationHandler {
                await self.results
            } onCancel: {
                // Runs under the task's own lock: what cancelling leads to must not.
                self.manager.context.taskControl.async { self.cancel() }
            }
        }
        operation.start()
        return operation
    }

    /// Its results, whatever they are.
    public var input: DependencyInput<[Result]> { operation().input }
}
