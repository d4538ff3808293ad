// Runs many requests as one. A batch pulls requests from their source while the number of its unfinished requests is
// below a limit, and stores the results in input order.
import Foundation

/// A set of requests with one progress, one end and results in input order.
///
/// A batch pulls a request from its source only while the number of its unfinished requests is below a limit. A lazy
/// sequence of a million requests is therefore never in memory at once. ``RequestManager/cancelAll()`` cancels a batch
/// as ``cancel()`` does.
///
/// ```swift
/// let batch = manager.batch(urls.map { Request<Data>.get($0) })
/// for await progress in batch.progress { draw(progress.fractionCompleted) }
/// let results = await batch.results
/// ```
///
/// ## Concurrency
/// Use a batch from any thread. It finishes once, after every member's callbacks have returned. Releasing a batch does
/// not stop it.
///
/// ## Topics
/// - ``results``
/// - ``progress``
/// - ``add(_:onResult:)``
/// - ``operation(named:)``
/// - ``cancel()``
public final class Batch<Output: Sendable>: Sendable {
    /// The result of a member.
    public typealias Result = RequestOperation<Output>.Result

    /// A request that was added to a batch.
    ///
    /// Pass the value to `result(of:)` to get the result.
    public struct Addition: Sendable, Hashable {
        /// The number of requests added before this one.
        ///
        /// In ``Batch/results``, the index of the result is this number plus the number of results of the source.
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

    /// The progress, for any number of readers.
    ///
    /// Each reader gets the latest value, and the last one when the batch has finished.
    ///
    /// No reader gets the same value twice.
    public var progress: Broadcast<BatchProgress> { broadcast() }

    /// The progress at limited intervals.
    ///
    /// - Parameter interval: the minimum time between two values of a reader, on
    ///   ``RequestManager/Configuration/clock``. The last value is not delayed.
    public func progress(every interval: Duration) -> Broadcast<BatchProgress> {
        broadcast(BroadcastPace(interval, run.scheduler.context.clock))
    }

    private func broadcast(_ pace: BroadcastPace? = nil) -> Broadcast<BatchProgress> {
        run.watch()
        return Broadcast(source: run.progress, pace: pace)
    }

    /// The current progress.
    ///
    /// - Complexity: O(*n*) for *n* running members; O(1) once ``progress`` has a reader.
    public var currentProgress: BatchProgress { run.currentProgress }

    /// The results, available when the batch has finished.
    ///
    /// The results of the source come first, in its order. The results of added requests follow, in the order of
    /// adding.
    ///
    /// A request of the source keeps its index when requests are added. An error that the source throws is its last
    /// result. A cancelled batch includes requests that a collection announced but the batch did not pull, up to
    /// 4,194,304. If the source announced more, only pulled requests have results. The array is empty when the batch
    /// was made with `keepsResults: false`. Cancelling the waiting task does not cancel the batch.
    public var results: [Result] {
        get async {
            await finished()
            // All members that were never made share one result, because there may be a million of them.
            let stopped = Result.failure(RequestError(.cancelled, "its batch was stopped before its turn"))
            let outcomes = run.outcomes
            var results: [Result] = []
            results.reserveCapacity(outcomes.count)
            // A loop is faster than `map`, whose closure would look up its generic types for each result.
            for outcome in outcomes {
                if let outcome {
                    results.append(RequestOperation<Output>.typed(outcome))
                } else {
                    results.append(stopped)
                }
            }
            return results
        }
    }

    /// The result of an added request, available when the batch has finished.
    ///
    /// Nil when the batch stores no results.
    ///
    /// - Parameter addition: the value that ``add(_:onResult:)`` of this batch returned.
    public func result(of addition: Addition) async -> Result? {
        await finished()
        return run.outcome(ofAdded: addition.number).map { RequestOperation<Output>.typed($0) }
    }

    /// Waits until the batch has finished.
    public func finished() async { await run.finished() }

    /// Cancels every member and pulls no more requests from the source.
    ///
    /// Announced requests that were not pulled fail with `.cancelled` too.
    ///
    /// A second call, or a call after the batch has finished, has no effect.
    public func cancel() { run.cancel() }

    /// Adds a request while the batch runs.
    ///
    /// The result of the added request follows the results of the source, which keep their indices.
    ///
    /// - Parameters:
    ///   - request: sent when it has a slot, without waiting for the end of the source.
    ///   - handler: called with the result, where the batch's `onResult` is called. The batch finishes after the
    ///     handler has returned, so the handler may add more requests.
    /// - Returns: the value to pass to ``result(of:)``. Nil when the batch has finished or was cancelled; then
    ///   nothing was added.
    /// - Thread: any.
    @discardableResult
    public func add(_ request: Request<Output>, onResult handler: (@Sendable (Result) -> Void)? = nil) -> Addition? {
        let operation = RequestOperation(request, of: run.scheduler, isInternal: true)
        let onOutcome = handler.map { handler -> @Sendable (AnyOutcome) -> Void in
            { handler(RequestOperation<Output>.typed($0)) }
        }
        return run.add(operation, onOutcome).map { Addition(number: $0) }
    }

    /// Sends a request of the source, then waits until the batch may pull another one.
    ///
    /// Returns false when the batch accepts no more requests.
    func admit(_ request: Request<Output>) async -> Bool {
        let isWanted = run.take(RequestOperation(request, of: run.scheduler, isInternal: true))
        if let isWanted { return isWanted }
        return await run.waitForRoom()
    }
}

extension Batch: TypedDependency {
    /// An operation that finishes with the batch and has its results, for code that depends on a batch.
    ///
    /// Cancelling the operation cancels the batch. The operation is already started and belongs to no queue. Each call
    /// makes another operation.
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
    /// - Parameter name: the operation's name in messages and logs.
    public func operation(named name: String = "a batch") -> GroupOperation<[Result]> {
        let operation = GroupOperation(named: name, run.scheduler, isManaged: false) { _ in
            await withTaskCancellationHandler {
                await self.results
            } onCancel: {
                // This closure runs under the task's own lock, and cancelling runs code that must not run under a lock.
                self.run.scheduler.context.taskControl.async { self.cancel() }
            }
        }
        operation.start()
        return operation
    }

    /// The results, whether the members succeeded or not.
    public var input: DependencyInput<[Result]> { operation().input }
}
