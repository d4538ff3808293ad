// The part of a batch that does not depend on the output type. It starts members, stores outcomes and sends progress.

/// Runs the members of one batch.
///
/// The class is not generic, because generic code looks up its types at run time for each member.
final class BatchRun: Producer {
    let scheduler: Scheduler
    let progress = BroadcastSource<BatchProgress>(replaces: { _, _ in true }, repeats: ==)
    private let state: Locked<BatchState>
    private let failFast: Bool
    /// The caller's handler for the outcomes of the source's requests.
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

    /// Sends a request of the source.
    ///
    /// - Returns: whether the batch accepts another request; nil if the number of unfinished members has reached its
    ///   limit (``Scheduler/readAhead``). The caller then calls ``waitForRoom()``.
    func take(_ operation: AnyRequestOperation) -> Bool? {
        guard let (_, count, isPulled) = submit(operation, isFromSource: true) else { return false }
        guard count < SchedulerState.minReadAhead || scheduler.readsAhead(of: count) else { return nil }
        // A member that finishes at once may stop the batch. If the batch knows the task that runs this code
        // (`isPulled`), a stop also cancels that task. So it suffices to ask whether the task is cancelled, without the
        // lock.
        return isPulled ? !Task.isCancelled : state.withLock { !$0.isStopped }
    }

    /// Waits until the batch may pull another request; false when it accepts no more.
    func waitForRoom() async -> Bool {
        await withCheckedContinuation { continuation in
            let isStopped = state.withLock { state in
                if !state.isStopped { (state.room, state.roomAt, state.wideRoomAt) = (continuation, 0, 0) }
                return state.isStopped
            }
            if isStopped { continuation.resume(returning: false) } else { limitHasChanged() }
        }
    }

    /// Continues to read the source if the number of unfinished members is below its limit.
    ///
    /// If it is not, the method sets the numbers of unfinished members at which reading continues.
    func limitHasChanged() {
        let (window, wideWindow) = scheduler.readAhead
        let (room, looksForSlots) = state.withLock { state -> (CheckedContinuation<Bool, Never>?, Bool) in
            guard state.room != nil else { return (nil, false) }
            if state.runningCount < window { return (state.takeRoom(), false) }
            // Reading continues at half of the number at which it pauses. If it continued after each member, the source
            // and the queue would wake each other for every request. The larger of the old and the new number applies,
            // because another thread may have seen a higher limit.
            (state.roomAt, state.wideRoomAt) = (max(state.roomAt, window / 2), max(state.wideRoomAt, wideWindow / 2))
            return (nil, state.runningCount < wideWindow)
        }
        room?.resume(returning: true)
        if looksForSlots { scheduler.whenSlotsAreFree(self) }
    }

    /// Continues to read the source, because a slot is free that no operation wants.
    func slotsAreFree() { state.withLock { $0.takeRoom() }?.resume(returning: true) }

    /// Sends a request that does not come from the source.
    ///
    /// Returns the number of requests added before; nil when the batch accepts no more.
    func add(_ operation: AnyRequestOperation, _ handler: (@Sendable (AnyOutcome) -> Void)?) -> Int? {
        guard case .added(let number)? = submit(operation, isFromSource: false, handler)?.place else { return nil }
        return number
    }

    /// Sends a request as a member; nil when the batch accepts no more.
    ///
    /// - Returns: the member's place among the results, the number of unfinished members, and whether the task that
    ///   reads the source is known.
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
        var moved: (@Sendable (TransferProgress) -> Void)?
        if isWatched { moved = { self.moved(member, $0) } }
        operation.join(moved: moved, finished: handler, settled: { self.settled(member, $0) })
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

    /// Stores the task that reads the source, to cancel it.
    func pull(with task: Task<Void, Never>) {
        let isStopped = state.withLock { state in
            state.pulling = state.sourceHasEnded ? nil : task
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    /// Records that the source has ended, and finishes the batch if no member is left.
    ///
    /// An error of the source is its last result.
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
        let (room, looksForSlots, stops, waiters, sending) = state.withLock { state in
            state.finish(member, outcome, transfer)
            let room = state.runningCount <= state.roomAt ? state.takeRoom() : nil
            let looksForSlots = state.room != nil && state.runningCount == state.wideRoomAt
            // A manager that was shut down rejects every request, so the batch stops.
            let isEnough = failFast && error != nil || error?.code == .managerShutDown
            let waiters = state.takeFinish()
            return (room, looksForSlots, isEnough && !state.isStopped, waiters, state.beginSending())
        }
        if looksForSlots { scheduler.whenSlotsAreFree(self) }
        send(sending)
        if stops { cancel() }
        room?.resume(returning: !stops)
        finish(waiters)
    }

    // MARK: The end of the batch

    /// Cancels every member and pulls no more requests from the source.
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

    /// Resumes the tasks that wait until the batch has finished.
    ///
    /// - Parameter waiters: nil unless the caller's event has finished the batch.
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

    /// The outcomes in the order of the results; nil for a member that was never made.
    var outcomes: [AnyOutcome?] {
        // The outcomes are computed outside the lock, because a million outcomes take time.
        state.withLock { $0 }.outcomes
    }

    func outcome(ofAdded number: Int) -> AnyOutcome? { state.withLock { $0.outcome(ofAdded: number) } }

    // MARK: Progress

    private typealias Sending = BatchState.Sending

    /// The current progress.
    ///
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

    /// Makes the members report their progress from now on.
    func watch() {
        let unread = state.withLock { state -> [BatchState.Running] in
            defer { state.isWatched = true }
            return state.isWatched ? [] : state.running.compactMap { $0 }
        }
        for one in unread { if let operation = one.operation { watch(one.member, operation) } }
    }

    private func watch(_ member: BatchMember, _ operation: AnyRequestOperation) {
        operation.observeProgress { self.moved(member, $0) }
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

    /// Sends progress values in order, without holding a lock.
    ///
    /// One thread at a time sends the values of all threads.
    private func send(_ first: Sending?) {
        var next = first
        while let (value, isLast) = next {
            if isLast { progress.end(with: value) } else { progress.send(value) }
            next = state.withLock { $0.nextSending() }
        }
    }
}
