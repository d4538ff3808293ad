// Starting batches.
import Foundation

extension RequestManager {
    /// Runs the requests of an array or another collection as a batch; it begins at once.
    ///
    /// - Parameters:
    ///   - requests: the requests; pulled, off this thread, only as there is room.
    ///   - failFast: whether the first failure cancels the rest.
    ///   - keepsResults: whether ``Batch/results`` will be asked for; false keeps memory flat, however many there are.
    ///   - onResult: called once for each of these requests that was taken, with its index among them, on that member's
    ///     lane or where the configuration sends callbacks; several may run at once. The batch finishes after the last.
    ///     What is added later has handlers of its own, ``Batch/add(_:onResult:)``.
    public func batch<Output, Requests: Collection & SendableMetatype>(
        _ requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        let count = requests.count
        return start(requests, announced: count, failFast, keepsResults, onResult)
    }

    /// Runs so many requests as a batch, each made when there is room for it.
    ///
    /// For lazy batches from the main actor and other actors: what a sequence holds of theirs would have to be handed over
    /// with it, a function that is `Sendable` holds nothing of theirs.
    ///
    /// ```swift
    /// let batch = manager.batch(count: 1_000_000) { index in
    ///     Request<Data>.get("https://example.com/tiles/\(index)")
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - count: how many; none for less than one.
    ///   - failFast: whether the first failure cancels the rest.
    ///   - keepsResults: whether ``Batch/results`` will be asked for.
    ///   - onResult: as for a sequence.
    ///   - makeRequest: makes the request with an index from 0; called once for each, in order, in a task of the library's.
    public func batch<Output>(
        count: Int, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil,
        _ makeRequest: @escaping @Sendable (_ index: Int) -> Request<Output>
    ) -> Batch<Output> {
        batch(
            (0..<max(0, count)).lazy.map(makeRequest), failFast: failFast, keepsResults: keepsResults,
            onResult: onResult)
    }

    /// Runs the requests of any lazy sequence as a batch; how many there are is known when it has ended.
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

    /// Runs the requests of an asynchronous sequence as a batch; it begins at once.
    ///
    /// An error the sequence throws is the batch's last result, and ends the taking.
    public func batch<Output, Requests: AsyncSequence & SendableMetatype>(
        pulling requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.AsyncIterator: SendableMetatype {
        let batch = Batch<Output>(
            manager: scheduler, announced: nil, failFast: failFast, keepsResults: keepsResults, onResult: onResult)
        batch.run.pull(
            with: Task {
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
