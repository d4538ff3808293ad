// Starts batches.
import Foundation

extension RequestManager {
    /// Runs the requests of an array or another collection as a batch, which starts at once.
    ///
    /// - Parameters:
    ///   - requests: the requests. The batch pulls them on another thread, while the number of unfinished ones is
    ///     below a limit.
    ///   - failFast: whether the first failure cancels all other members.
    ///   - keepsResults: whether ``Batch/results`` are stored. With false, memory does not grow with the number of
    ///     requests.
    ///   - onResult: called once for each pulled request, with its index. The handler runs on the member's own serial
    ///     executor or where the configuration sends callbacks, and several calls may run at once. The batch finishes
    ///     after the last call. Requests that are added later have their own handlers, ``Batch/add(_:onResult:)``.
    public func batch<Output, Requests: Collection & SendableMetatype>(
        _ requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        let count = requests.count
        return start(requests, announced: count, failFast, keepsResults, onResult)
    }

    /// Runs `count` requests as a batch.
    ///
    /// The batch makes a request only while the number of its unfinished requests is below a limit.
    ///
    /// Use this method to run a lazy batch from the main actor or another actor. There, a lazy sequence would capture
    /// actor-isolated state, so it could not be passed to the batch. A `@Sendable` function captures none.
    ///
    /// ```swift
    /// let batch = manager.batch(count: 1_000_000) { index in
    ///     Request<Data>.get("https://example.com/tiles/\(index)")
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - count: the number of requests. A number below one means none.
    ///   - failFast: whether the first failure cancels all other members.
    ///   - keepsResults: whether ``Batch/results`` are stored.
    ///   - onResult: called once for each request that became a member of the batch, with the request's index.
    ///   - makeRequest: makes the request with an index from 0. It is called in one of the library's tasks, in order,
    ///     at most once for each index. A stopped batch makes at most one more request, and does not send it.
    public func batch<Output>(
        count: Int, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil,
        _ makeRequest: @escaping @Sendable (_ index: Int) -> Request<Output>
    ) -> Batch<Output> {
        batch(
            (0..<max(0, count)).lazy.map(makeRequest), failFast: failFast, keepsResults: keepsResults,
            onResult: onResult)
    }

    /// Fetches responses into the manager's cache, even if it contains fresh ones.
    ///
    /// The requests have the policy ``CachePolicy/reload``. No body stays in memory. Without a cache, the bodies are
    /// discarded.
    ///
    /// ```swift
    /// await manager.prefetch(urls.map { .get($0) }).finished()
    /// ```
    public func prefetch(_ requests: [Request<Data>]) -> Batch<Void> {
        batch(count: requests.count, keepsResults: false) { index in
            var core = requests[index].cachePolicy(.reload).core
            (core.destination, core.decodesAtOnce) = (.nowhere, true)
            return Request<Void>(core: core) { _, _ in }
        }
    }

    /// Runs the requests of any lazy sequence as a batch.
    ///
    /// The total number of members is known only when the sequence has ended.
    public func batch<Output, Requests: Sequence & SendableMetatype>(
        _ requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        start(requests, announced: nil, failFast, keepsResults, onResult)
    }

    private func start<Output, Requests: Sequence & SendableMetatype>(
        _ requests: sending Requests, announced: Int?, _ failFast: Bool, _ keepsResults: Bool,
        _ onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)?
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        let batch = Batch<Output>(
            manager: scheduler, announced: announced, failFast: failFast, keepsResults: keepsResults, onResult: onResult
        )
        batch.run.pull(
            with: Task {
                for request in requests {
                    guard await batch.admit(request) else { break }
                }
                batch.run.endSource()
            })
        return batch
    }

    /// Runs the requests of an asynchronous sequence as a batch, which starts at once.
    ///
    /// If the sequence throws an error, the last result of the source is `.invalidRequest` with this error as
    /// ``RequestError/underlying``.
    public func batch<Output, Requests: AsyncSequence & SendableMetatype>(
        pulling requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.AsyncIterator: SendableMetatype {
        let batch = Batch<Output>(
            manager: scheduler, announced: nil, failFast: failFast, keepsResults: keepsResults, onResult: onResult)
        batch.run.pull(
            with: Task { [scheduler] in
                // After a shutdown, the batch does not wait for the source, which might never give a request.
                if scheduler.state.withLock({ $0.isShutDown }) {
                    return batch.run.endSource(RequestError(.managerShutDown, Scheduler.shutDownReason))
                }
                do {
                    for try await request in requests {
                        guard await batch.admit(request) else { break }
                    }
                    batch.run.endSource()
                } catch {
                    batch.run.endSource(
                        RequestError(.invalidRequest, "the sequence of requests failed: \(error)", underlying: error))
                }
            })
        return batch
    }
}
