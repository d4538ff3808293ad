// Runs many requests as one. A batch pulls requests from their source while the number of its unfinished requests is
// below a limit, and stores the results in input order.
import Foundation

/// A set of requests with one progress, one end and results in input order.
///
/// A batch pulls a request from its source only while the number of its unfinished requests is below a limit, so a lazy
/// sequence of a million is never in memory at once. ``RequestManager/cancelAll()`` cancels it too.
///
/// ```swift
/// let batch = manager.batch(urls.map { Request<Data>.get($0) })
/// for await progress in batch.progress { draw(progress.fractionCompleted) }
/// let results = await batch.results
/// ```
///
/// ## Concurrency
/// Use a batch from any thread. It finishes once, after every member's callbacks have returned, even if it is released.
///
/// ## Topics
/// - ``results``
/// - ``progress``
/// - ``add(_:onResult:)``
/// - ``operation(named:)``
/// - ``cancel()``
public final class Batch<Output: Sendable>: Sendable, TypedDependency {
    /// The result of a member.
    public typealias Result = RequestOperation<Output>.Result

    /// A request that was added to a batch, whose result `result(of:)` returns.
    public struct Addition: Sendable, Hashable {
        /// The number of requests added before this one; in ``Batch/results``, those of the source come first.
        public let number: Int
    }

    fileprivate let run: BatchRun

    fileprivate init(run: BatchRun) { self.run = run }

    /// The progress, for any number of readers: each gets the latest value, none twice, and always the last.
    public var progress: Broadcast<BatchProgress> { Broadcast(source: run.watch()) }

    /// The progress with a minimum interval between a reader's values, by the configured clock, except for the last.
    public func progress(every interval: Duration) -> Broadcast<BatchProgress> {
        Broadcast(source: run.watch(), interval: interval)
    }

    /// The current progress.
    ///
    /// - Complexity: O(*n*) for *n* running members; O(1) once ``progress`` has a reader.
    public var currentProgress: BatchProgress { run.currentProgress }

    /// The results when the batch has finished: those of the source in its order, then those of added requests.
    ///
    /// An error that the source throws is its last result. A cancelled batch includes requests that a collection
    /// announced but the batch did not pull, unless they are more than 4,194,304. The array is empty with
    /// `keepsResults: false`. Cancelling the waiting task does not cancel the batch.
    public var results: [Result] {
        get async {
            await finished()
            let outcomes = run.outcomes
            var results: [Result] = []
            results.reserveCapacity(outcomes.count)
            // A loop is faster than `map`, whose closure would look up its generic types for each result.
            for outcome in outcomes { results.append(RequestOperation<Output>.typed(outcome)) }
            return results
        }
    }

    /// The result of a request that ``add(_:onResult:)`` added, when the batch has finished; nil without results.
    public func result(of addition: Addition) async -> Result? {
        await finished()
        return run.outcome(ofAdded: addition.number).map { RequestOperation<Output>.typed($0) }
    }

    /// Waits until the batch has finished.
    public func finished() async { await run.finished() }

    /// Cancels every member, also announced ones, and pulls no more requests; a later call has no effect.
    public func cancel() { run.cancel() }

    /// Adds a request while the batch runs.
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
        let onOutcome = handler.map { handler in { @Sendable in handler(RequestOperation<Output>.typed($0)) } }
        return run.submit(operation, isAdded: true, onOutcome).map { Addition(number: $0.number) }
    }

    fileprivate func admit(_ request: Request<Output>) async -> Bool {
        await run.admit(RequestOperation(request, of: run.scheduler, isInternal: true))
    }

    /// An operation that finishes with the batch and has its results, for code that depends on a batch.
    ///
    /// Cancelling it cancels the batch. It is already started and belongs to no queue. Each call makes another one.
    ///
    /// ```swift
    /// let done = BlockOperation { print("done") }
    /// done.addDependency(batch.operation(named: "tiles"))
    /// ```
    public func operation(named name: String = "a batch") -> GroupOperation<[Result]> {
        let operation = GroupOperation(named: name, run.scheduler) { _ in
            await withTaskCancellationHandler {
                await self.results
            } onCancel: {
                // This closure runs under the task's own lock, and cancelling runs code that must not run under a lock.
                self.run.scheduler.taskControl.async { self.cancel() }
            }
        }
        // The manager does not list it, as it lists the members.
        operation.withLock { $0.role = .member }
        operation.start()
        return operation
    }

    /// The results, whether the members succeeded or not.
    public var input: DependencyInput<[Result]> { operation().input }
}

/// Not generic, because generic code looks up its types at run time for each member.
final class BatchRun: Producer {
    let scheduler: Scheduler
    private let progress: BroadcastSource<BatchProgress>
    private let state: Locked<BatchState>
    private let failFast: Bool
    private let onOutcome: (@Sendable (Int, AnyOutcome) -> Void)?

    init(
        _ scheduler: Scheduler, announced: Int?, failFast: Bool, keepsResults: Bool,
        onOutcome: (@Sendable (Int, AnyOutcome) -> Void)?
    ) {
        (self.scheduler, self.failFast, self.onOutcome) = (scheduler, failFast, onOutcome)
        progress = BroadcastSource(clock: scheduler.clock, replaces: { _, _ in true }, repeats: ==)
        state = Locked(BatchState(announced: announced, keepsResults: keepsResults))
        scheduler.begin(self)
    }

    // Returns whether the batch accepts another request, once the number of unfinished members is below its limit
    // (``Scheduler/readAhead``).
    func admit(_ operation: AnyRequestOperation) async -> Bool {
        guard let count = submit(operation)?.count else { return false }
        // A member that finishes at once may stop the batch, which cancels the task that runs this code.
        if count < Schedule.minReadAhead || count < scheduler.readAhead { return !Task.isCancelled }
        return await withCheckedContinuation { continuation in
            state.withLock { ($0.room, $0.roomAt) = (continuation, 0) }
            limitHasChanged()
        }
    }

    // Above the limit, reading continues at half of it. If it continued after each member, the source and the queue
    // would wake each other for every request.
    func limitHasChanged() {
        let window = scheduler.readAhead
        perform(
            state.withLock { state in
                // The larger of the old and the new number: another thread may have seen a higher limit.
                state.roomAt = state.runningCount < window ? .max : max(state.roomAt, window / 2)
                return state.effects()
            })
    }

    // Nil when the batch accepts no more. Returns the member's number and the number of unfinished members.
    @discardableResult
    func submit(
        _ operation: AnyRequestOperation, isAdded: Bool = false, _ handler: (@Sendable (AnyOutcome) -> Void)? = nil
    ) -> (number: Int, count: Int)? {
        let begun = state.withLock { state in
            state.begin(operation, isAdded: isAdded).map { ($0, state.runningCount, state.isWatched) }
        }
        guard let (number, count, isWatched) = begun else { return nil }
        var handler = handler
        if !isAdded, let onOutcome { handler = { onOutcome(number, $0) } }
        if isWatched { watch(operation) }
        // The batch counts the member as finished in `settled`, which runs after the caller's handler has returned.
        scheduler.enqueue(operation, then: handler.map { FinishHandler(place: operation.place(nil), run: $0) }) {
            [unowned operation] in self.settled(operation, $0)
        }
        return (number, count)
    }

    func pull(with task: Task<Void, Never>) {
        let isStopped = state.withLock { state in
            state.pulling = state.sourceHasEnded ? nil : task
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    func endSource(_ error: RequestError? = nil) {
        perform(
            state.withLock { state in
                if !state.sourceHasEnded { state.endSource(error) }
                return state.effects()
            })
    }

    private func settled(_ operation: AnyRequestOperation, _ outcome: AnyOutcome) {
        let transfer = outcome.transfer ?? operation.progress
        perform(
            state.withLock { state in
                state.finish(operation, outcome, transfer)
                // A manager that was shut down rejects every request, so the batch stops.
                let isEnough = failFast && outcome.error != nil || outcome.error?.code == .managerShutDown
                return isEnough && !state.isStopped ? state.stop() : state.effects()
            })
    }

    func cancel() { perform(state.withLock { $0.stop() }) }

    private func perform(_ effects: BatchState.Effects) {
        send(effects.sending)
        if !effects.operations.isEmpty {
            scheduler.holdingStarts { for operation in effects.operations { operation.cancel() } }
        }
        effects.pulling?.cancel()
        effects.room?.resume(returning: effects.acceptsMore)
        guard let waiters = effects.waiters else { return }
        scheduler.end(self)
        for waiter in waiters { waiter.resume() }
    }

    func finished() async {
        await withCheckedContinuation { continuation in
            let isFinished = state.withLock { state in
                if !state.isFinished { state.waiters.append(continuation) }
                return state.isFinished
            }
            if isFinished { continuation.resume() }
        }
    }

    /// Computed outside the lock, because a million outcomes take time.
    var outcomes: [AnyOutcome] { state.withLock { $0.results }.flatMap(\.all) }

    func outcome(ofAdded number: Int) -> AnyOutcome? {
        state.withLock { $0.added.outcomes.indices.contains(number) ? $0.added.outcomes[number] : nil }
    }

    var currentProgress: BatchProgress {
        // The operations are retained, so that no later one gets the identity of another.
        let transfers = state.withLock { $0.unread }.map { ($0, $0.progress) }
        let now = scheduler.clock.now
        return state.withLock { state in
            for (member, transfer) in transfers { state.move(ObjectIdentifier(member), transfer, at: nil) }
            return state.progress(at: now)
        }
    }

    func watch() -> BroadcastSource<BatchProgress> {
        let unread = state.withLock { state in
            defer { state.isWatched = true }
            return state.unread
        }
        for operation in unread { watch(operation) }
        return progress
    }

    private func watch(_ operation: AnyRequestOperation) {
        let member = ObjectIdentifier(operation)
        operation.notifyProgress(at: .here) { self.moved(member, $0) }
        // Counts the bytes that the member moved before it was observed.
        moved(member, operation.progress)
    }

    private func moved(_ member: ObjectIdentifier, _ transfer: TransferProgress) {
        let now = scheduler.clock.now
        send(
            state.withLock { state in
                state.move(member, transfer, at: now)
                return state.sending()
            })
    }

    private func send(_ sending: BatchState.Sending?) {
        guard let (value, number, isLast) = sending else { return }
        if isLast { progress.end(with: value, number: number) } else { progress.send(value, number: number) }
    }
}

struct BatchState {
    // A lazy collection may announce more requests than memory can hold. In that case only pulled requests get results.
    private static let mostListed = 1 << 22

    struct Member {
        let operation: AnyRequestOperation
        let isAdded: Bool
        /// Among the requests of the source, or among the added requests.
        let number: Int
        var counted = BatchMeter.Member()
    }

    struct Results {
        private static let stopped = AnyOutcome(
            error: RequestError(.cancelled, "its batch was stopped before its turn"))

        /// Of the members that have finished; other members at lower numbers have the outcome of one never made.
        private(set) var outcomes: [AnyOutcome] = []
        var count = 0

        mutating func put(_ outcome: AnyOutcome, at index: Int) {
            while outcomes.count <= index { outcomes.append(Self.stopped) }
            outcomes[index] = outcome
        }

        var all: [AnyOutcome] { outcomes + Array(repeating: Self.stopped, count: max(0, count - outcomes.count)) }
    }

    struct Effects {
        var sending: Sending?
        /// The members to cancel.
        var operations: [AnyRequestOperation] = []
        var pulling: Task<Void, Never>?
        var room: CheckedContinuation<Bool, Never>?
        var acceptsMore = true
        /// Not nil when the batch has finished.
        var waiters: [CheckedContinuation<Void, Never>]?
    }

    typealias Sending = (progress: BatchProgress, number: Int, isLast: Bool)

    private let keepsResults: Bool
    private var source = Results()
    private(set) var added = Results()
    private var announced: Int?
    private(set) var sourceHasEnded = false

    private(set) var running: [ObjectIdentifier: Member] = [:]
    var runningCount: Int { running.count }
    private var meter = BatchMeter()
    var pulling: Task<Void, Never>?
    private(set) var isStopped = false
    private(set) var isFinished = false
    /// Resumed with whether the batch accepts more requests.
    var room: CheckedContinuation<Bool, Never>?
    /// The number of unfinished members at which the task in ``room`` resumes.
    var roomAt = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
    var isWatched = false
    private var sendingCount = 0

    init(announced: Int?, keepsResults: Bool) {
        // A lazy collection may announce up to `Int.max`. Half of that cannot overflow in a sum.
        self.announced = announced.map { min($0, .max / 2) }
        self.keepsResults = keepsResults
        expect()
    }

    var results: [Results] { keepsResults ? [source, added] : [] }

    /// The members without an observer of their progress.
    var unread: [AnyRequestOperation] { isWatched ? [] : running.values.map(\.operation) }

    mutating func sending() -> Sending? {
        guard isWatched || isFinished else { return nil }
        sendingCount += 1
        return (meter.progress, sendingCount, isFinished)
    }

    /// Returns the number of the new member; nil if the batch accepts no more.
    mutating func begin(_ operation: AnyRequestOperation, isAdded: Bool) -> Int? {
        guard !isStopped, !isFinished else { return nil }
        let number = isAdded ? added.count : source.count
        if isAdded { added.count += 1 } else { source.count += 1 }
        running[ObjectIdentifier(operation)] = Member(operation: operation, isAdded: isAdded, number: number)
        expect()
        return number
    }

    /// - Parameter now: nil when no rate is measured.
    mutating func move(_ member: ObjectIdentifier, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        guard let index = running.index(forKey: member) else { return }
        meter.move(&running.values[index].counted, transfer, at: now)
    }

    mutating func progress(at now: ContinuousClock.Instant) -> BatchProgress {
        if !isWatched, !isFinished { meter.measure(at: now) }
        return meter.progress
    }

    mutating func finish(_ operation: AnyRequestOperation, _ outcome: AnyOutcome, _ transfer: TransferProgress) {
        guard var member = running.removeValue(forKey: ObjectIdentifier(operation)) else { return }
        meter.move(&member.counted, transfer, at: nil)
        meter.finish(&member.counted, isSuccess: outcome.error == nil)
        guard keepsResults else { return }
        if member.isAdded { added.put(outcome, at: member.number) } else { source.put(outcome, at: member.number) }
    }

    mutating func stop() -> Effects {
        let members = running.values.sorted { ($0.isAdded ? 1 : 0, $0.number) < ($1.isAdded ? 1 : 0, $1.number) }
        let pulling = pulling
        isStopped = true
        if !sourceHasEnded {
            if let announced, announced > source.count, announced <= Self.mostListed {
                let skipped = announced - source.count
                meter.count(skipped, failed: skipped, skipped: skipped)
                source.count = announced
            }
            endSource()
        }
        var effects = effects()
        (effects.operations, effects.pulling) = (members.map(\.operation), pulling)
        return effects
    }

    mutating func endSource(_ error: RequestError? = nil) {
        if let error {
            meter.count(1, failed: 1)
            if keepsResults { source.put(AnyOutcome(error: error), at: source.count) }
            source.count += 1
        }
        sourceHasEnded = true
        (pulling, announced) = (nil, nil)
        expect()
    }

    private mutating func expect() {
        let total = sourceHasEnded ? source.count : announced.map { max($0, source.count) }
        meter.expect(total.map { $0 + added.count })
    }

    /// What follows from a change of the state; the caller does it after the lock is released.
    mutating func effects() -> Effects {
        var effects = Effects(acceptsMore: !isStopped)
        if isStopped || runningCount <= roomAt { swap(&effects.room, &room) }
        if sourceHasEnded, runningCount == 0, !isFinished {
            isFinished = true
            meter.complete()
            effects.waiters = waiters
            waiters = []
        }
        effects.sending = sending()
        return effects
    }
}

/// The progress of a batch, in members and in bytes of both directions.
public struct BatchProgress: Sendable, Hashable {
    /// Members that have finished, with any outcome.
    public internal(set) var finishedCount = 0
    /// Members that have finished without success.
    public internal(set) var failedCount = 0
    /// Members that were cancelled before the batch pulled them; they count as finished and failed, too.
    public internal(set) var skippedCount = 0
    /// The total number of members; nil while the source may still return an unknown number.
    public internal(set) var totalCount: Int?
    /// Body bytes that all members together have sent; see ``download``.
    public internal(set) var upload = ByteProgress()
    /// Body bytes that all members together have received; they never decrease, even when a member's body starts again.
    ///
    /// The total, nil until a length is known, grows as members start: it adds their announced lengths or moved bytes.
    public internal(set) var download = ByteProgress()
    /// The completed fraction, 0 to 1, which never decreases: each member counts the same, a running one by its bytes.
    public internal(set) var fractionCompleted = 0.0
}

struct BatchMeter {
    /// What the sums contain of a member.
    struct Member {
        var (upload, download) = (ByteProgress(), ByteProgress())
        var fraction = 0.0
    }

    private(set) var progress = BatchProgress()
    private var runningFraction = 0.0
    private var (uploadRate, downloadRate) = (RateMeter(), RateMeter())
    private var measured: (upload: Int64, download: Int64) = (0, 0)

    mutating func move(_ member: inout Member, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        progress.upload.add(transfer.upload, countedIn: &member.upload)
        progress.download.add(transfer.download, countedIn: &member.download)
        if let now { measure(at: now) }
        let fraction = max(member.fraction, transfer.fractionOfMember)
        runningFraction += fraction - member.fraction
        member.fraction = fraction
        update()
    }

    mutating func measure(at now: ContinuousClock.Instant) {
        if progress.upload.completedBytes != measured.upload { progress.upload.measure(with: &uploadRate, at: now) }
        if progress.download.completedBytes != measured.download {
            progress.download.measure(with: &downloadRate, at: now)
        }
        measured = (progress.upload.completedBytes, progress.download.completedBytes)
    }

    mutating func finish(_ member: inout Member, isSuccess: Bool) {
        runningFraction -= member.fraction
        // The member moves no more bytes, so its total becomes the number of bytes that it has moved.
        progress.upload.end(&member.upload)
        progress.download.end(&member.download)
        count(1, failed: isSuccess ? 0 : 1)
    }

    /// Members that never started, too: an error of the source, and skipped ones.
    mutating func count(_ finished: Int, failed: Int, skipped: Int = 0) {
        progress.finishedCount += finished
        progress.failedCount += failed
        progress.skippedCount += skipped
        update()
    }

    mutating func expect(_ total: Int?) {
        progress.totalCount = total
        update()
    }

    mutating func complete() {
        if progress.totalCount == 0 { progress.fractionCompleted = 1 }
    }

    private mutating func update() {
        guard let total = progress.totalCount, total > 0 else { return }
        // The sum of fractions is not exact: it may differ from zero when all members have finished.
        let running = progress.finishedCount < total ? runningFraction : 0
        let done = (Double(progress.finishedCount) + running) / Double(total)
        progress.fractionCompleted = max(progress.fractionCompleted, min(1, done))
    }
}

extension ByteProgress {
    // `counted` is what the sum contains of the member. A body that starts again counts from its former position on.
    fileprivate mutating func add(_ member: ByteProgress, countedIn counted: inout ByteProgress) {
        let bytes = max(counted.completedBytes, member.completedBytes)
        // Servers may announce any number, and the sum must not overflow.
        let total = (member.totalBytes ?? counted.totalBytes).map { max(min($0, 1 << 46), bytes) }
        replace(&counted, by: ByteProgress(completedBytes: bytes, totalBytes: total))
    }

    fileprivate mutating func end(_ counted: inout ByteProgress) {
        let total = counted.totalBytes.map { _ in counted.completedBytes }
        replace(&counted, by: ByteProgress(completedBytes: counted.completedBytes, totalBytes: total))
    }

    private mutating func replace(_ old: inout ByteProgress, by new: ByteProgress) {
        if totalBytes != nil || new.totalBytes != nil {
            totalBytes =
                (totalBytes ?? completedBytes) &- (old.totalBytes ?? old.completedBytes)
                &+ (new.totalBytes ?? new.completedBytes)
        }
        completedBytes &+= new.completedBytes &- old.completedBytes
        old = new
    }
}

extension TransferProgress {
    fileprivate var fractionOfMember: Double {
        let sent = Double(upload.totalBytes == nil ? 0 : upload.completedBytes)
        let toSend = Double(upload.totalBytes ?? 0)
        // A body of unknown length is assumed to have 64 KiB.
        guard let total = download.totalBytes else { return sent / (toSend + 65_536) }
        let whole = toSend + Double(total)
        return whole > 0 ? min(1, (sent + Double(download.completedBytes)) / whole) : 1
    }
}

extension RequestManager {
    /// Runs the requests of an array or another collection as a batch, which starts at once.
    ///
    /// - Parameters:
    ///   - requests: the requests. The batch pulls them on another thread, while fewer than a limit are unfinished.
    ///   - failFast: whether the first failure cancels all other members.
    ///   - keepsResults: whether ``Batch/results`` are stored; otherwise memory does not grow with their number.
    ///   - onResult: called once for each pulled request, with its index, on the member's own serial executor or where
    ///     the configuration sends callbacks, so several calls may run at once. The batch finishes after the last call.
    ///     Requests that are added later have their own handlers.
    public func batch<Output, Requests: Collection & SendableMetatype>(
        _ requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        let count = requests.count
        return start(count, failFast, keepsResults, onResult) { batch in
            for request in requests { guard await batch.admit(request) else { break } }
        }
    }

    /// Runs `count` requests as a batch, lazily even from an actor, and otherwise like a collection.
    ///
    /// There, a lazy sequence would capture actor-isolated state, so it could not be passed to the batch. The function
    /// makes the request with an index from 0, in one of the library's tasks, in order, at most once for each index. A
    /// stopped batch makes at most one more request, and does not send it.
    public func batch<Output>(
        count: Int, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil,
        _ makeRequest: @escaping @Sendable (_ index: Int) -> Request<Output>
    ) -> Batch<Output> {
        batch(
            (0..<max(0, count)).lazy.map(makeRequest), failFast: failFast, keepsResults: keepsResults,
            onResult: onResult)
    }

    /// Fetches responses into the manager's cache (``CachePolicy/reload``); without a cache, the bodies are discarded.
    public func prefetch(_ requests: [Request<Data>]) -> Batch<Void> {
        batch(count: requests.count, keepsResults: false) { requests[$0].cachePolicy(.reload).ignoringBody() }
    }

    /// Runs the requests of any lazy sequence as a batch, whose total number is known only when the sequence has ended.
    public func batch<Output, Requests: Sequence & SendableMetatype>(
        _ requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.Iterator: SendableMetatype {
        start(nil, failFast, keepsResults, onResult) { batch in
            for request in requests { guard await batch.admit(request) else { break } }
        }
    }

    /// Runs the requests of an asynchronous sequence as a batch, which starts at once; an error of the sequence is the
    /// last result of the source, as ``RequestError/underlying`` of `.invalidRequest`.
    public func batch<Output, Requests: AsyncSequence & SendableMetatype>(
        pulling requests: sending Requests, failFast: Bool = false, keepsResults: Bool = true,
        onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)? = nil
    ) -> Batch<Output> where Requests.Element == Request<Output>, Requests.AsyncIterator: SendableMetatype {
        start(nil, failFast, keepsResults, onResult) { [scheduler] batch throws(RequestError) in
            // After a shutdown, the batch does not wait for the source, which might never give a request.
            if scheduler.schedule.withLock({ $0.isShutDown }) {
                throw RequestError(.managerShutDown, Scheduler.shutDownReason)
            }
            do {
                for try await request in requests { guard await batch.admit(request) else { break } }
            } catch {
                throw RequestError(.invalidRequest, "the sequence of requests failed: \(error)", underlying: error)
            }
        }
    }

    private func start<Output>(
        _ announced: Int?, _ failFast: Bool, _ keepsResults: Bool,
        _ onResult: (@Sendable (Int, Batch<Output>.Result) -> Void)?,
        _ pull: sending @escaping (Batch<Output>) async throws(RequestError) -> Void
    ) -> Batch<Output> {
        let run = BatchRun(
            scheduler, announced: announced, failFast: failFast, keepsResults: keepsResults,
            onOutcome: onResult.map { onResult in { @Sendable in onResult($0, RequestOperation<Output>.typed($1)) } })
        let batch = Batch<Output>(run: run)
        run.pull(
            with: Task {
                do throws(RequestError) {
                    try await pull(batch)
                    run.endSource()
                } catch {
                    run.endSource(error)
                }
            })
        return batch
    }
}
