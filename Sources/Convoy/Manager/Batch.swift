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

    let run: BatchRun

    init(
        manager: Scheduler, announced: Int?, failFast: Bool, keepsResults: Bool,
        onResult: (@Sendable (Int, Result) -> Void)?
    ) {
        run = BatchRun(
            manager, announced: announced, failFast: failFast, keepsResults: keepsResults,
            onOutcome: onResult.map { onResult in
                { @Sendable index, outcome in onResult(index, RequestOperation<Output>.typed(outcome)) }
            })
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
        broadcast(BroadcastPace(interval, run.scheduler.context.clock))
    }

    private func broadcast(_ pace: BroadcastPace? = nil) -> Broadcast<BatchProgress> {
        run.watch()
        return Broadcast(source: run.progress, pace: pace)
    }

    /// How far it is now.
    ///
    /// - Complexity: O(*n*) for *n* members under way; O(1) once ``progress`` has a reader.
    public var currentProgress: BatchProgress { run.currentProgress }

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
            // One for all members that were never made: there may be a million.
            let stopped = Result.failure(RequestError(.cancelled, "its batch was stopped before it was its turn"))
            return run.outcomes.map { outcome in outcome.map { RequestOperation<Output>.typed($0) } ?? stopped }
        }
    }

    /// The result of a request that was added, when the batch has finished; nil when the batch keeps no results.
    ///
    /// - Parameter addition: what ``add(_:onResult:)`` of this batch has returned.
    public func result(of addition: Addition) async -> Result? {
        await finished()
        return run.outcome(ofAdded: addition.number).map { RequestOperation<Output>.typed($0) }
    }

    /// Waits until the batch has finished.
    public func finished() async { await run.finished() }

    /// Cancels every member and takes no more from the source: what was announced and not taken ends as `.cancelled` too.
    ///
    /// Again, or when it has finished: no effect.
    public func cancel() { run.cancel() }

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
        let operation = RequestOperation(request, of: run.scheduler, isUnseen: true)
        let onOutcome = handler.map { handler -> @Sendable (AnyOutcome) -> Void in
            { handler(RequestOperation<Output>.typed($0)) }
        }
        return run.add(operation, onOutcome).map { Addition(number: $0) }
    }

    /// Sends a request of the source, then waits for room for another; false when no more are wanted.
    func admit(_ request: Request<Output>) async -> Bool {
        let isWanted = run.take(RequestOperation(request, of: run.scheduler, isUnseen: true))
        if let isWanted { return isWanted }
        return await run.waitForRoom()
    }
}

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
        let operation = GroupOperation(named: name, run.scheduler, isManaged: false) { _ in
            await withTaskCancellationHandler {
                await self.results
            } onCancel: {
                // Runs under the task's own lock: what cancelling leads to must not.
                self.run.scheduler.context.taskControl.async { self.cancel() }
            }
        }
        operation.start()
        return operation
    }

    /// Its results, whatever they are.
    public var input: DependencyInput<[Result]> { operation().input }
}
