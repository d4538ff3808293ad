// Many requests as one: pulled as there is room, results in input order.
import Foundation

/// A set of requests that runs as one thing, with one progress, one end and results in input order.
///
/// Requests are taken from their source only as there is room: a lazy sequence of a million is never in memory at once.
///
/// ```swift
/// let batch = manager.batch(urls.map { .get($0) })
/// for await progress in batch.progress { draw(progress.fractionCompleted) }
/// let results = await batch.results
/// ```
///
/// ## Concurrency
/// Use it from any thread. It finishes once, after every member's callbacks have returned (rule 11). Letting go of it
/// stops nothing.
public final class Batch<Output: Sendable>: Sendable {
    /// What each member ends with.
    public typealias Result = RequestOperation<Output>.Result

    fileprivate struct State {
        var results: [Int: Result] = [:]
        var running: [Int: RequestOperation<Output>] = [:]
        var nextIndex = 0
        var meter = BatchMeter()
        /// How many members the source announced; more may be added.
        var announced: Int?
        var sourceHasEnded = false
        var isStopped = false
        var isFinished = false
        var room: CheckedContinuation<Void, Never>?
        var waiters: [CheckedContinuation<Void, Never>] = []
        var pending: [BatchProgress] = []
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
        window = max(64, min(1_024, 4 * manager.state.withLock { $0.limit }))
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
            return state.withLock { state in (0..<state.nextIndex).compactMap { state.results[$0] } }
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
            if let error, !state.isStopped { state.appendFailure(error, keeps: keepsResults) }
            state.sourceHasEnded = true
            if state.isStopped {
                // What was announced and never taken was cancelled with the rest.
                while state.nextIndex < state.announced ?? 0 {
                    state.appendFailure(
                        RequestError(.cancelled, "its batch was stopped before it was its turn"), keeps: keepsResults)
                }
            }
            state.announced = nil
            state.meter.expect(state.nextIndex)
            state.notice()
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
            state.running[index] = operation
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
        manager.enqueue(operation)
        return index
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
            return (room, failFast && !isSuccess && !state.isStopped, state.takeFinish())
        }
        tell()
        if stops { stop() }
        room?.resume()
        for waiter in finish ?? [] { waiter.resume() }
    }

    private func stop() {
        let (operations, room) = state.withLock { state in
            state.isStopped = true
            defer { state.room = nil }
            return (state.running.sorted { $0.key < $1.key }.map(\.value), state.room)
        }
        for operation in operations { operation.cancel() }
        room?.resume()
    }

    /// Sends progress in the order it was made, with no lock held; whoever comes first sends for all.
    private func tell() {
        let isTelling = state.withLock { state in
            defer { state.isTelling = true }
            return state.isTelling
        }
        guard !isTelling else { return }
        while let (progress, isLast) = takePending() {
            progressSource.send(progress)
            if isLast { progressSource.end() }
        }
    }

    private func takePending() -> (BatchProgress, isLast: Bool)? {
        state.withLock { state in
            guard let last = state.pending.last else {
                state.isTelling = false
                return nil
            }
            state.pending = []
            return (last, state.isFinished)
        }
    }
}

extension Batch.State {
    /// Notes the progress to be told; only the latest counts.
    fileprivate mutating func notice() {
        if pending.isEmpty { pending.append(meter.progress) } else { pending[0] = meter.progress }
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
        guard sourceHasEnded, running.isEmpty, !isFinished else { return nil }
        isFinished = true
        notice()
        defer { waiters = [] }
        return waiters
    }
}
