// Many requests as one: pulled as there is room, results in input order.
import Foundation

/// A set of requests that runs as one thing, with one progress, one end and results in input order.
///
/// Requests are taken from their source only as there is room: a lazy sequence of a million is never in memory at once.
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
public final class Batch<Output: Sendable>: Sendable {
    /// What each member ends with.
    public typealias Result = RequestOperation<Output>.Result

    fileprivate struct State {
        var results: [Int: Result] = [:]
        /// Members that were announced and never made.
        var skipped = 0..<0
        var running: [Int: RequestOperation<Output>] = [:]
        var nextIndex = 0
        var meter = BatchMeter()
        /// How many members the source announced; more may be added.
        var announced: Int?
        var sourceHasEnded = false
        /// Takes from the source.
        var pulling: Task<Void, Never>?
        /// Members that have an index and are being made ready.
        var beginning = 0
        var isStopped = false
        var isFinished = false
        var room: CheckedContinuation<Void, Never>?
        var waiters: [CheckedContinuation<Void, Never>] = []
        var pending: BatchProgress?
        var isTelling = false
    }

    private let state: Locked<State>
    private let manager: Scheduler
    private let window: Int
    private let failFast: Bool
    private let keepsResults: Bool
    private let onResult: (@Sendable (Int, Result) -> Void)?
    private let progressSource = BroadcastSource<BatchProgress> { _, _ in true }

    init(
        manager: Scheduler, announced: Int?, failFast: Bool, keepsResults: Bool,
        onResult: (@Sendable (Int, Result) -> Void)?
    ) {
        self.manager = manager
        self.failFast = failFast
        self.keepsResults = keepsResults
        self.onResult = onResult
        window = max(1_024, 4 * min(1 << 20, manager.state.withLock { $0.limit }))
        var state = State()
        state.announced = announced
        state.meter.expect(announced)
        self.state = Locked(state)
    }

    /// How far it is, for any number of readers; each gets the latest, the last one when the batch has finished.
    public var progress: Broadcast<BatchProgress> { Broadcast(source: progressSource) }

    /// How far it is now.
    public var currentProgress: BatchProgress { state.withLock { $0.meter.progress } }

    /// The results in input order, when the batch has finished; one for each request that was taken or announced.
    ///
    /// Empty when the batch was made with `keepsResults: false`. Cancelling the waiting task does not cancel the batch.
    public var results: [Result] {
        get async {
            await finished()
            let (results, count, skipped) = state.withLock { ($0.results, $0.nextIndex, $0.skipped) }
            guard keepsResults else { return [] }
            let cancelled = Result.failure(RequestError(.cancelled, "its batch was stopped before it was its turn"))
            return (0..<count).compactMap { results[$0] ?? (skipped.contains($0) ? cancelled : nil) }
        }
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

    /// Cancels every member and takes no more from the source.
    public func cancel() { stop() }

    /// Adds a request while the batch runs; its result comes after those of the requests taken so far.
    ///
    /// - Returns: its index, or nil when the batch has finished or was cancelled: then nothing was added.
    @discardableResult
    public func add(_ request: Request<Output>) -> Int? { submit(request, isFromSource: false) }

    /// Takes a request from the source, when there is room; false when no more are wanted.
    func admit(_ request: Request<Output>) async -> Bool {
        guard submit(request, isFromSource: true) != nil else { return false }
        await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state in
                if state.running.count < window || state.isStopped { return true }
                state.room = continuation
                return false
            }
            if goesOn { continuation.resume() }
        }
        return state.withLock { !$0.isStopped }
    }

    /// The source gives no more; an error of its own is the last result.
    func endSource(_ error: RequestError? = nil) {
        let finish = state.withLock { state in
            guard !state.sourceHasEnded else { return [CheckedContinuation<Void, Never>]?.none }
            if let error { state.appendFailure(error, keeps: keepsResults) }
            state.endSource()
            return state.takeFinish()
        }
        tell()
        for waiter in finish ?? [] { waiter.resume() }
    }

    private func submit(_ request: Request<Output>, isFromSource: Bool) -> Int? {
        let operation = RequestOperation<Output>(recipe: Recipe(request), context: manager.context)
        let index: Int? = state.withLock { state in
            guard !state.isStopped, !state.isFinished else { return nil }
            let index = state.nextIndex
            state.nextIndex += 1
            state.beginning += 1
            if !isFromSource { state.announced? += 1 }
            if state.announced == nil, state.sourceHasEnded { state.meter.expect(state.nextIndex) }
            if let announced = state.announced { state.meter.expect(max(announced, state.nextIndex)) }
            state.meter.start(index)
            return index
        }
        guard let index else { return nil }
        operation.whenProgressing { self.moved(index, $0) }
        if let onResult { operation.onFinish { onResult(index, $0) } }
        // Its own callbacks first: the batch comes last.
        operation.whenSettled { [unowned operation] in self.settled(index, operation.result) }
        // Where it can be cancelled only now: a callback added after its end would not be waited for.
        let isStopped = state.withLock { state in
            state.beginning -= 1
            state.running[index] = operation
            return state.isStopped
        }
        if isStopped { operation.cancel() }
        manager.enqueue(operation)
        return index
    }

    /// Holds the task that takes from the source, to cancel it.
    func pull(with task: Task<Void, Never>) {
        let isStopped = state.withLock { state in
            state.pulling = state.sourceHasEnded ? nil : task
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    private func moved(_ index: Int, _ transfer: TransferProgress) {
        state.withLock { state in
            state.meter.move(index, transfer)
            state.notice()
        }
        tell()
    }

    private func settled(_ index: Int, _ result: Result?) {
        let result = result ?? .failure(RequestError(.cancelled, "it ended without a result"))
        let isSuccess = if case .success = result { true } else { false }
        let (room, stops, finish) = state.withLock { state in
            state.running[index] = nil
            if keepsResults { state.results[index] = result }
            state.meter.finish(index, isSuccess: isSuccess)
            state.notice()
            // Not at the first free place: the source and the queue would wake each other for every request.
            let room = state.running.count <= window / 2 ? state.room : nil
            if room != nil { state.room = nil }
            // A manager that has been shut down takes no more from anybody.
            let isRefused = if case .failure(let error) = result { error.code == .managerShutDown } else { false }
            return (room, (failFast && !isSuccess || isRefused) && !state.isStopped, state.takeFinish())
        }
        tell()
        if stops { stop() }
        room?.resume()
        for waiter in finish ?? [] { waiter.resume() }
    }

    private func stop() {
        let (operations, room, pulling, finish) = state.withLock { state in
            state.isStopped = true
            let taken = (state.running.sorted { $0.key < $1.key }.map(\.value), state.room, state.pulling)
            state.room = nil
            if !state.sourceHasEnded {
                // What was announced and never taken was cancelled with the rest. The source need not hear of it now.
                state.skipAnnounced(keeps: keepsResults)
                state.endSource()
            }
            return (taken.0, taken.1, taken.2, state.takeFinish())
        }
        manager.frozen { for operation in operations { operation.cancel() } }
        pulling?.cancel()
        room?.resume()
        tell()
        for waiter in finish ?? [] { waiter.resume() }
    }

    /// Sends progress in the order it was made, with no lock held; whoever comes first sends for all.
    private func tell() {
        let isTelling = state.withLock { state in
            defer { state.isTelling = true }
            return state.isTelling
        }
        guard !isTelling else { return }
        while let (progress, isLast) = takePending() {
            if isLast { progressSource.end(with: progress) } else { progressSource.send(progress) }
        }
    }

    private func takePending() -> (BatchProgress, isLast: Bool)? {
        state.withLock { state in
            guard let latest = state.pending else {
                state.isTelling = false
                return nil
            }
            state.pending = nil
            return (latest, state.isFinished)
        }
    }
}

extension Batch.State {
    /// Notes the progress to be told; only the latest counts.
    fileprivate mutating func notice() { pending = meter.progress }

    fileprivate mutating func endSource() {
        sourceHasEnded = true
        pulling = nil
        announced = nil
        meter.expect(nextIndex)
        notice()
    }

    /// Counts the members that will never be made as cancelled.
    fileprivate mutating func skipAnnounced(keeps: Bool) {
        guard let announced, announced > nextIndex else { return }
        if keeps { skipped = nextIndex..<announced }
        meter.skip(announced - nextIndex)
        nextIndex = announced
    }

    fileprivate mutating func appendFailure(_ error: RequestError, keeps: Bool) {
        if keeps { results[nextIndex] = .failure(error) }
        nextIndex += 1
        meter.finish(nextIndex - 1, isSuccess: false)
    }

    /// Finishes once: when the source has ended and no member is left.
    ///
    /// The result is who waited.
    fileprivate mutating func takeFinish() -> [CheckedContinuation<Void, Never>]? {
        guard sourceHasEnded, running.isEmpty, beginning == 0, !isFinished else { return nil }
        isFinished = true
        notice()
        defer { waiters = [] }
        return waiters
    }
}
