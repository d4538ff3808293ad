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
        let operation = GroupOperation(named: name, run.scheduler, isAdopted: false) { _ in
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

/// Not generic, because generic code looks up its types at run time for each member.
final class BatchRun: Producer {
    let scheduler: Scheduler
    let progress = BroadcastSource<BatchProgress>(replaces: { _, _ in true }, repeats: ==)
    private let state: Locked<BatchState>
    private let failFast: Bool
    private let onOutcome: (@Sendable (Int, AnyOutcome) -> Void)?

    init(
        _ scheduler: Scheduler, announced: Int?, failFast: Bool, keepsResults: Bool,
        onOutcome: (@Sendable (Int, AnyOutcome) -> Void)?
    ) {
        (self.scheduler, self.failFast, self.onOutcome) = (scheduler, failFast, onOutcome)
        state = Locked(BatchState(announced: announced, keepsResults: keepsResults))
        scheduler.begin(self)
    }

    // MARK: Members

    // Returns whether the batch accepts another request. Nil if the number of unfinished members has reached its limit
    // (``Scheduler/readAhead``); the caller then calls ``waitForRoom()``.
    func take(_ operation: AnyRequestOperation) -> Bool? {
        guard let (_, count, isPulled) = submit(operation, isFromSource: true) else { return false }
        guard count < Schedule.minReadAhead || count < scheduler.readAhead else { return nil }
        // A member that finishes at once may stop the batch. If the batch knows the task that runs this code
        // (`isPulled`), a stop also cancels that task. So it suffices to ask whether the task is cancelled, without the
        // lock.
        return isPulled ? !Task.isCancelled : state.withLock { !$0.isStopped }
    }

    func waitForRoom() async -> Bool {
        await withCheckedContinuation { continuation in
            let isStopped = state.withLock { state in
                if !state.isStopped { (state.room, state.roomAt) = (continuation, 0) }
                return state.isStopped
            }
            if isStopped { continuation.resume(returning: false) } else { limitHasChanged() }
        }
    }

    // Above the limit, reading continues at half of it. If it continued after each member, the source and the queue
    // would wake each other for every request.
    func limitHasChanged() {
        let window = scheduler.readAhead
        let room = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard state.room != nil else { return nil }
            if state.runningCount < window { return state.takeRoom() }
            // The larger of the old and the new number applies, because another thread may have seen a higher limit.
            state.roomAt = max(state.roomAt, window / 2)
            return nil
        }
        room?.resume(returning: true)
    }

    func add(_ operation: AnyRequestOperation, _ handler: (@Sendable (AnyOutcome) -> Void)?) -> Int? {
        guard case .added(let number)? = submit(operation, isFromSource: false, handler)?.place else { return nil }
        return number
    }

    // Nil when the batch accepts no more. Returns the member's place among the results, the number of unfinished
    // members, and whether the task that reads the source is known.
    private func submit(
        _ operation: AnyRequestOperation, isFromSource: Bool, _ handler: (@Sendable (AnyOutcome) -> Void)? = nil
    ) -> (place: BatchMember.Place, count: Int, isPulled: Bool)? {
        let begun = state.withLock { state in
            state.begin(isFromSource: isFromSource).map { (member: $0, isWatched: state.isWatched) }
        }
        guard let (member, isWatched) = begun else { return nil }
        var handler = handler
        if case .source(let index) = member.place, let onOutcome { handler = { onOutcome(index, $0) } }
        // The batch counts the member as finished in `settled`, which runs after the caller's handler has returned.
        if isWatched { operation.notifyProgress(at: .here) { self.moved(member, $0) } }
        if let handler { operation.whenFinished(FinishHandler(place: operation.place(nil), run: handler)) }
        operation.whenSettled { self.settled(member, $0) }
        // The member can be cancelled only from here on, after its callbacks were added. The batch would not wait for
        // the callbacks of a member that finished earlier.
        let (isStopped, startsWatching, count, isPulled) = state.withLock { state in
            let isStopped = state.run(member, operation)
            return (
                isStopped, state.isWatched && !isWatched, isStopped ? Int.max : state.runningCount,
                state.pulling != nil
            )
        }
        if isStopped { operation.cancel() }
        if startsWatching { watch(member, operation) }
        scheduler.enqueue(operation)
        return (member.place, count, isPulled)
    }

    func pull(with task: Task<Void, Never>) {
        let isStopped = state.withLock { state in
            state.pulling = state.sourceHasEnded ? nil : task
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    func endSource(_ error: RequestError? = nil) {
        let (waiters, sending) = state.withLock { state -> ([CheckedContinuation<Void, Never>]?, Sending?) in
            guard !state.sourceHasEnded else { return (nil, nil) }
            state.endSource(error)
            return (state.takeFinish(), state.beginSending())
        }
        send(sending)
        finish(waiters)
    }

    private func settled(_ member: BatchMember, _ outcome: AnyOutcome) {
        // A successful outcome contains its progress, so the operation is needed only after a failure.
        let operation = outcome.error == nil ? nil : state.withLock { $0.running[member.index]?.operation }
        let transfer = outcome.transfer ?? operation?.progress
        let error = outcome.error
        let (room, stops, waiters, sending) = state.withLock { state in
            state.finish(member, outcome, transfer)
            let room = state.runningCount <= state.roomAt ? state.takeRoom() : nil
            // A manager that was shut down rejects every request, so the batch stops.
            let isEnough = failFast && error != nil || error?.code == .managerShutDown
            let waiters = state.takeFinish()
            return (room, isEnough && !state.isStopped, waiters, state.beginSending())
        }
        send(sending)
        if stops { cancel() }
        room?.resume(returning: !stops)
        finish(waiters)
    }

    // MARK: The end of the batch

    func cancel() {
        let (operations, room, pulling, waiters, sending) = state.withLock { state in
            let (pulling, operations) = (state.pulling, state.operations)
            state.stop()
            let waiters = state.takeFinish()
            return (operations, state.takeRoom(), pulling, waiters, state.beginSending())
        }
        scheduler.frozen { for operation in operations { operation.cancel() } }
        pulling?.cancel()
        room?.resume(returning: false)
        send(sending)
        finish(waiters)
    }

    private func finish(_ waiters: [CheckedContinuation<Void, Never>]?) {
        guard let waiters else { return }
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

    var outcomes: [AnyOutcome?] {
        // The outcomes are computed outside the lock, because a million outcomes take time.
        state.withLock { $0 }.outcomes
    }

    func outcome(ofAdded number: Int) -> AnyOutcome? { state.withLock { $0.outcome(ofAdded: number) } }

    // MARK: Progress

    private typealias Sending = BatchState.Sending

    /// Without readers, this property reads the progress of every running member.
    var currentProgress: BatchProgress {
        let unread = state.withLock { $0.isWatched ? [] : $0.running.compactMap { $0 } }
        let transfers = unread.map { ($0.member, $0.operation?.progress ?? TransferProgress()) }
        let now = scheduler.context.clock.now
        return state.withLock { state in
            for (member, transfer) in transfers { state.move(member, transfer, at: nil) }
            return state.progress(at: now)
        }
    }

    func watch() {
        let unread = state.withLock { state -> [BatchState.Running] in
            defer { state.isWatched = true }
            return state.isWatched ? [] : state.running.compactMap { $0 }
        }
        for one in unread { if let operation = one.operation { watch(one.member, operation) } }
    }

    private func watch(_ member: BatchMember, _ operation: AnyRequestOperation) {
        operation.notifyProgress(at: .here) { self.moved(member, $0) }
        // Counts the bytes that the member moved before it was observed.
        moved(member, operation.progress)
    }

    private func moved(_ member: BatchMember, _ transfer: TransferProgress) {
        let now = scheduler.context.clock.now
        send(
            state.withLock { state -> Sending? in
                state.move(member, transfer, at: now)
                return state.beginSending()
            })
    }

    private func send(_ first: Sending?) {
        var next = first
        while let (value, isLast) = next {
            if isLast { progress.end(with: value) } else { progress.send(value) }
            next = state.withLock { $0.nextSending() }
        }
    }
}

struct BatchMember: Hashable, Sendable {
    /// The members of the source come first.
    enum Place: Hashable, Comparable, Sendable {
        case source(Int)
        case added(Int)
    }

    let place: Place
    /// The index in ``BatchState/running`` until the member finishes.
    let index: Int
}

struct BatchState {
    // A lazy collection may announce more requests than memory can hold. In that case only pulled requests get results.
    private static let mostListed = 1 << 22

    struct Running {
        let member: BatchMember
        var operation: AnyRequestOperation?
    }

    private let keepsResults: Bool
    private var sourceOutcomes: [AnyOutcome?] = []
    private var addedOutcomes: [AnyOutcome?] = []
    private var sourceCount = 0
    private var addedCount = 0
    private var announced: Int?
    private(set) var sourceHasEnded = false

    /// The running members, each at its ``BatchMember/index``; nil at an unused index.
    private(set) var running: [Running?] = []
    private var freeIndices: [Int] = []
    private(set) var meter = BatchMeter()
    var pulling: Task<Void, Never>?
    private(set) var isStopped = false
    private(set) var isFinished = false
    /// Resumed with whether the batch accepts more requests.
    var room: CheckedContinuation<Bool, Never>?
    /// The number of unfinished members at which the task in ``room`` resumes.
    var roomAt = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
    var isWatched = false
    private var pending: BatchProgress?
    private var isSending = false

    typealias Sending = (progress: BatchProgress, isLast: Bool)

    init(announced: Int?, keepsResults: Bool) {
        // A lazy collection may announce up to `Int.max`. Half of that cannot overflow in a sum.
        self.announced = announced.map { min($0, .max / 2) }
        self.keepsResults = keepsResults
        expect()
    }

    mutating func takeRoom() -> CheckedContinuation<Bool, Never>? {
        defer { room = nil }
        return room
    }

    var runningCount: Int { running.count - freeIndices.count }

    mutating func beginSending() -> Sending? { isSending ? nil : nextSending() }

    mutating func nextSending() -> Sending? {
        defer { pending = nil }
        isSending = pending != nil && (isWatched || isFinished)
        guard isSending else { return nil }
        return pending.map { ($0, isFinished) }
    }

    var outcomes: [AnyOutcome?] {
        guard keepsResults else { return [] }
        return filled(sourceOutcomes, sourceCount) + filled(addedOutcomes, addedCount)
    }

    private func filled(_ outcomes: [AnyOutcome?], _ count: Int) -> [AnyOutcome?] {
        outcomes + [AnyOutcome?](repeating: nil, count: max(0, count - outcomes.count))
    }

    func outcome(ofAdded number: Int) -> AnyOutcome? {
        addedOutcomes.indices.contains(number) ? addedOutcomes[number] : nil
    }

    mutating func begin(isFromSource: Bool) -> BatchMember? {
        guard !isStopped, !isFinished else { return nil }
        let place = isFromSource ? BatchMember.Place.source(sourceCount) : .added(addedCount)
        if isFromSource { sourceCount += 1 } else { addedCount += 1 }
        expect()
        let member = BatchMember(place: place, index: freeIndices.popLast() ?? running.count)
        if member.index == running.count { running.append(nil) }
        running[member.index] = Running(member: member)
        meter.start(member.index)
        return member
    }

    mutating func run(_ member: BatchMember, _ operation: AnyRequestOperation) -> Bool {
        running[member.index]?.operation = operation
        return isStopped
    }

    var operations: [AnyRequestOperation] {
        running.compactMap { $0 }.sorted { $0.member.place < $1.member.place }.compactMap(\.operation)
    }

    /// - Parameter now: nil when no rate is measured.
    mutating func move(_ member: BatchMember, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        guard running[member.index]?.member == member else { return }
        meter.move(member.index, transfer, at: now)
        pending = meter.progress
    }

    mutating func progress(at now: ContinuousClock.Instant) -> BatchProgress {
        if !isWatched, !isFinished { meter.measure(at: now) }
        return meter.progress
    }

    mutating func finish(_ member: BatchMember, _ outcome: AnyOutcome, _ transfer: TransferProgress?) {
        if let transfer { meter.move(member.index, transfer, at: nil) }
        running[member.index] = nil
        freeIndices.append(member.index)
        meter.finish(member.index, isSuccess: outcome.error == nil)
        keep(outcome, at: member.place)
    }

    private mutating func keep(_ outcome: AnyOutcome, at place: BatchMember.Place) {
        pending = meter.progress
        guard keepsResults else { return }
        switch place {
        case .source(let index): sourceOutcomes.put(outcome, at: index)
        case .added(let number): addedOutcomes.put(outcome, at: number)
        }
    }

    mutating func stop() {
        isStopped = true
        guard !sourceHasEnded else { return }
        if let announced, announced > sourceCount, announced <= Self.mostListed {
            meter.skip(announced - sourceCount)
            sourceCount = announced
        }
        endSource()
    }

    mutating func endSource(_ error: RequestError? = nil) {
        if let error {
            sourceCount += 1
            meter.finish(nil, isSuccess: false)
            keep(AnyOutcome(error: error), at: .source(sourceCount - 1))
        }
        sourceHasEnded = true
        (pulling, announced) = (nil, nil)
        expect()
        pending = meter.progress
    }

    private mutating func expect() {
        let total = sourceHasEnded ? sourceCount : announced.map { max($0, sourceCount) }
        meter.expect(total.map { $0 + addedCount })
    }

    mutating func takeFinish() -> [CheckedContinuation<Void, Never>]? {
        guard sourceHasEnded, runningCount == 0, !isFinished else { return nil }
        isFinished = true
        meter.complete()
        pending = meter.progress
        defer { waiters = [] }
        return waiters
    }
}

extension Array {
    fileprivate mutating func put<Value>(_ value: Value, at index: Int) where Element == Value? {
        while count <= index { append(nil) }
        self[index] = value
    }
}

/// The progress of a batch, in members and in bytes of both directions.
public struct BatchProgress: Sendable, Hashable {
    /// Members that have finished, with any outcome.
    public internal(set) var finishedCount = 0
    /// Members that have finished without success.
    public internal(set) var failedCount = 0
    /// Members that the source had announced and that were cancelled before the batch pulled them.
    ///
    /// Skipped members count as finished and failed, too.
    public internal(set) var skippedCount = 0
    /// The total number of members; nil while the source may still return an unknown number.
    public internal(set) var totalCount: Int?
    /// Body bytes that all members together have sent; see ``download``.
    public internal(set) var upload = ByteProgress()
    /// Body bytes that all members together have received.
    ///
    /// The bytes never decrease, even when a member's body starts again. The total adds the announced length of each
    /// member. A member without an announced length, or a finished member, contributes the bytes it has moved. The
    /// total therefore grows as members start. The total is nil until a length is known.
    public internal(set) var download = ByteProgress()
    /// The completed fraction, 0 to 1.
    ///
    /// Each member counts the same; a running member counts by its bytes in both directions.
    ///
    /// The fraction never decreases.
    public internal(set) var fractionCompleted = 0.0
}

struct BatchMeter {
    private struct Member {
        var (upload, download) = (ByteProgress(), ByteProgress())
        var fraction = 0.0
    }

    private(set) var progress = BatchProgress()
    private var members: [Member] = []
    private var runningFraction = 0.0
    private var (uploadRate, downloadRate) = (RateMeter(), RateMeter())
    private var measured: (upload: Int64, download: Int64) = (0, 0)

    mutating func start(_ index: Int) {
        while members.count <= index { members.append(Member()) }
        members[index] = Member()
    }

    mutating func move(_ index: Int, _ transfer: TransferProgress, at now: ContinuousClock.Instant?) {
        progress.upload.add(transfer.upload, countedIn: &members[index].upload)
        progress.download.add(transfer.download, countedIn: &members[index].download)
        if let now { measure(at: now) }
        let fraction = max(members[index].fraction, transfer.fractionOfMember)
        runningFraction += fraction - members[index].fraction
        members[index].fraction = fraction
        update()
    }

    mutating func measure(at now: ContinuousClock.Instant) {
        if progress.upload.completedBytes != measured.upload { progress.upload.measure(with: &uploadRate, at: now) }
        if progress.download.completedBytes != measured.download {
            progress.download.measure(with: &downloadRate, at: now)
        }
        measured = (progress.upload.completedBytes, progress.download.completedBytes)
    }

    /// - Parameter index: nil for an error of the source, which counts as a member that never started.
    mutating func finish(_ index: Int?, isSuccess: Bool) {
        if let index {
            runningFraction -= members[index].fraction
            // The member moves no more bytes, so its total becomes the number of bytes that it has moved.
            progress.upload.end(&members[index].upload)
            progress.download.end(&members[index].download)
            members[index] = Member()
        }
        progress.finishedCount += 1
        if !isSuccess { progress.failedCount += 1 }
        update()
    }

    mutating func skip(_ count: Int) {
        progress.finishedCount += count
        progress.failedCount += count
        progress.skippedCount += count
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
    // `counted` is the member's contribution to the sum. A body that starts again counts once it has passed its former
    // position.
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
    private static var assumedBytes: Double { 64 * 1024 }

    fileprivate var fractionOfMember: Double {
        let sent = Double(upload.totalBytes == nil ? 0 : upload.completedBytes)
        let toSend = Double(upload.totalBytes ?? 0)
        guard let total = download.totalBytes else { return sent / max(1, toSend + Self.assumedBytes) }
        let whole = toSend + Double(total)
        return whole > 0 ? min(1, (sent + Double(download.completedBytes)) / whole) : 1
    }
}

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
                if scheduler.schedule.withLock({ $0.isShutDown }) {
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
