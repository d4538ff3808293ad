import Convoy
import Dispatch
import Foundation

/// Stores requests and sends them until their outcome has been acknowledged, across crashes, reboots and days without
/// a network.
///
/// ```swift
/// let queue = try DurableQueue(at: file, manager: manager)
/// queue.start([
///     "order": { job, result in
///         result.isSuccess ? .done : .fail(result.failure ?? "refused")
///     }
/// ])
/// var job = Job("order", try JobRequest(.post(ordersURL, json: order)))
/// job.group = "customer-17"
/// try await queue.add(job)
/// ```
///
/// ``add(_:)`` returns when the job is on the disk. Each job is sent at least once. All its attempts have the same
/// `Idempotency-Key`, so that a server can recognise repetitions and process the job once. Any number of queues in any
/// number of processes may work on the same jobs. Each queue needs its own store instance, which owns the jobs that the
/// queue claims.
///
/// ## Concurrency
/// A queue may be used from any thread. Handlers run concurrently, each in its own task.
///
/// ## Topics
/// - ``init(at:manager:configuration:)``
/// - ``start(_:otherwise:)``
/// - ``add(_:)``
/// - ``drain()``
/// - ``why(_:)``
public final class DurableQueue: Sendable {
    /// Handles the outcome of a job and decides how it continues.
    ///
    /// The job is sent again, and the handler called again, if the process ends before the decision is on the disk.
    public typealias Handler = @Sendable (Job, JobResult) async -> JobDecision

    /// The store of the jobs.
    public let store: any Store
    /// The manager that sends the jobs.
    public let manager: RequestManager
    /// The settings of the queue.
    public let configuration: Configuration

    let state = Locked(DurableQueueState())
    /// Elements that arrive during a turn of the loop are merged into one.
    let wakeUps: AsyncStream<Void>
    let wakeUp: AsyncStream<Void>.Continuation

    /// Makes a queue with a store.
    public init(store: any Store, manager: RequestManager, configuration: Configuration = Configuration()) {
        self.store = store
        self.manager = manager
        self.configuration = configuration
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Makes a queue with an SQLite database in a file, which is created if it does not exist.
    ///
    /// - Throws: as ``SQLiteStore/init(at:clock:)``.
    public convenience init(
        at file: URL, manager: RequestManager, configuration: Configuration = Configuration()
    ) throws(QueueError) {
        let store = try SQLiteStore(at: file, clock: manager.configuration.clock)
        self.init(store: store, manager: manager, configuration: configuration)
    }

    deinit {
        wakeUp.finish()
        let (listener, timers) = state.withLock { ($0.listener, [$0.workTimer, $0.heartbeat, $0.silenceTimer]) }
        listener?.cancel()
        for timer in timers { timer?.cancel() }
    }

    // MARK: Jobs

    /// Adds a job, which is on the disk when this function returns.
    ///
    /// - Throws: `.invalidJob` for a job that cannot be sent or contains a secret, and errors of the store. If the
    ///   commit itself failed, the job may have been added; a second call with the same id is safe.
    @discardableResult
    public func add(_ job: Job) async throws(QueueError) -> JobAddition {
        try await add(contentsOf: [job]).first ?? JobAddition(id: job.id, outcome: .added)
    }

    /// Adds all jobs or none, in one transaction.
    ///
    /// - Throws: as ``add(_:)``.
    @discardableResult
    public func add(contentsOf jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        for job in jobs {
            if let defect = job.defect {
                throw QueueError(.invalidJob, "\(job.id.shownID) (\(job.request)): \(defect)")
            }
        }
        let additions = try await store.add(jobs)
        if jobs.contains(where: { $0.uniqueness?.policy == .replace }) {
            // This queue may be running the replaced job. The next turn of the loop therefore renews the leases, and
            // learns that the claim of the replaced job is lost.
            lookForWork(renewsLeases: true)
        }
        return additions
    }

    /// Cancels jobs, their running requests, and the jobs that depend on them.
    ///
    /// - Returns: the number of cancelled jobs.
    @discardableResult
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.cancel(selection)
        // The next turn of the loop renews the leases, and so learns which running jobs were cancelled.
        lookForWork(renewsLeases: true)
        return count
    }

    /// Sends dead letters again.
    ///
    /// - Returns: the number of retried jobs.
    @discardableResult
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.retry(selection)
        lookForWork()
        return count
    }

    /// The results that wait because their kind has no handler, oldest first.
    ///
    /// - Parameters:
    ///   - selection: the selection of jobs.
    ///   - limit: the maximum number of results.
    public func results(
        _ selection: JobSelection = .all, limit: Int = 100
    ) async throws(QueueError) -> [(job: Job, result: JobResult)] {
        var answered = selection
        answered.states = [.answered]
        var results: [(job: Job, result: JobResult)] = []
        for record in try await store.jobs(answered, after: 0, limit: limit) {
            if let whole = try await store.job(record.job.id), let result = whole.result {
                results.append((whole.job, result))
            }
        }
        return results
    }

    /// Acknowledges waiting results.
    ///
    /// - Returns: the number of acknowledged jobs, which are then done.
    @discardableResult
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.acknowledge(selection)
        lookForWork()
        return count
    }

    /// The dead letters with their errors, oldest first, without the bytes of their bodies.
    ///
    /// - Parameters:
    ///   - position: ``JobRecord/position`` of the last job of the previous page; 0 for the first page.
    ///   - limit: the maximum number of dead letters.
    public func deadLetters(after position: Int64 = 0, limit: Int = 100) async throws(QueueError) -> [JobRecord] {
        try await store.jobs(JobSelection(states: [.dead]), after: position, limit: limit)
    }

    /// Deletes finished jobs, including dead letters.
    ///
    /// - Returns: the number of deleted jobs.
    @discardableResult
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.delete(selection) }

    /// The number of jobs by kind and state.
    public func status() async throws(QueueError) -> QueueStatus { try await store.status() }

    /// A text that says why a job has not finished, or how the job ended.
    public func why(_ id: String) async throws(QueueError) -> String {
        guard let record = try await store.job(id) else { return "no job has the id \(id.shownID)" }
        let lapses = record.life.lapseCount
        var last = lapses > 0 ? "; " + JobLife.lapses(lapses) : ""
        if let attempt = record.attempts.last {
            let end = attempt.message ?? attempt.statusCode.map { "\($0)" } ?? "no result"
            last = "; attempt \(record.attemptCount) ended with \(end)"
        }
        switch record.state {
        case .waiting:
            if let delay = record.delay {
                let moment = record.attemptCount == 0 && lapses == 0 ? "its date" : "its next attempt"
                return "it waits for \(moment), in \(Int64(clamping: delay) / 1_000) s" + last
            }
            let host = record.job.request.host
            let (count, isSilent) = state.withLock { ($0.hostCounts[host] ?? 0, $0.silentHosts[host] != nil) }
            if isSilent {
                return "it waits for the host \(host), which does not answer now; this queue runs \(count) of its jobs"
                    + last
            }
            return host.isEmpty || count < min(maxPerHost, leastPerHost)
                ? "it is ready, and waits for its turn" + last
                : "it waits for the host \(host), for which this queue runs \(count) jobs" + last
        case .blocked:
            let blockers = try await store.blockers(of: id)
            return "it waits for "
                + blockers.map { "\($0.id) (\($0.reason.rawValue), \($0.state.rawValue))" }.joined(separator: ", ")
        case .claimed:
            let operation = state.withLock { $0.inFlight[id]?.sending?.operation }
            if let operation { return "it is being sent: " + manager.why(operation) }
            guard record.life.lease?.owner == store.owner else { return "another queue has claimed it" + last }
            return "its response has arrived, and its handler is running"
        case .answered: return "its result waits for a handler of the kind \(record.job.kind)"
        case .done: return "it is done"
        case .dead: return "it is a dead letter: \(record.failure ?? "it failed")" + last
        case .cancelled: return "it was cancelled"
        }
    }

    // MARK: Working

    /// Starts to claim and send jobs, including those of an earlier run; no effect while the queue runs or stops.
    ///
    /// - Parameters:
    ///   - handlers: the handlers by kind. Results of kinds without a handler wait in the store, see
    ///     ``results(_:limit:)``.
    ///   - otherwise: the handler of all other kinds; nil, the default, for none.
    public func start(_ handlers: [String: Handler] = [:], otherwise: Handler? = nil) {
        let isFirst = state.withLock { state in
            guard case .idle = state.phase else { return false }
            state.phase = .starting
            state.handlers = handlers
            state.otherwise = otherwise
            state.mayHaveWork = true
            state.resume()
            return true
        }
        guard isFirst else { return }
        let (changes, wakeUps) = (store.changes(), wakeUps)
        let listener = Task { [weak self] in
            for await _ in changes { await self?.lookForChanges() }
        }
        let loop = Task { [weak self] in
            for await _ in wakeUps {
                while await self?.turn() ?? false {}
                guard self?.isWorking ?? false else { return }
            }
        }
        state.withLock { state in
            state.listener = listener
            state.loop = loop
            state.phase = .working
        }
        wakeUp.yield()
    }

    /// Waits until no queue on this store has jobs to send or is sending jobs.
    ///
    /// The function does not wait for dead letters, jobs blocked by dead letters, and results without a handler. It
    /// returns early if the queue was not started, is stopped, or its manager is shut down.
    public func drain() async {
        await withCheckedContinuation { continuation in
            let isWorking = state.withLock { state in
                guard case .working = state.phase, !state.isManagerShutDown else { return false }
                state.drainers.append(continuation)
                state.mayHaveWork = true
                return true
            }
            if isWorking { wakeUp.yield() } else { continuation.resume() }
        }
    }

    private var isWorking: Bool { state.withLock { [.starting, .working, .finishing].contains($0.phase) } }

    private func lookForWork(renewsLeases: Bool = false) {
        state.withLock { state in
            if renewsLeases { state.needsHeartbeat = true }
            state.mayHaveWork = true
            state.resume()
        }
        wakeUp.yield()
    }

    private func lookForChanges() async {
        lookForWork()
        guard let status = try? await store.status() else { return }
        if state.withLock({ $0.note(cancelledCount: status[.cancelled]) }) { wakeUp.yield() }
    }

    // MARK: The loop, heartbeats and wake-ups

    /// Returns false if there was nothing to do or the store failed; otherwise the loop calls `turn` again at once.
    private func turn() async -> Bool {
        let limit = max(1, configuration.maxClaimedJobCount)
        guard let turn = state.withLock({ $0.takeTurn(limit: limit) }) else { return false }
        do throws(QueueError) {
            if let claims = turn.renewing {
                for lost in try await store.renew(claims, for: max(.seconds(1), configuration.lease)) { lose(lost) }
                setHeartbeat()
            }
            let wanted = turn.room > 0 ? try await claimRequest(for: turn) : nil
            // The maximum number of waiting results has limited this claim. Jobs of kinds with a handler may still be
            // claimable.
            let hasMoreRoom = wanted.map { $0.limit < turn.room } ?? false
            let (most, slots) = (maxPerHost, manager.configuration.maxConcurrentOperationCount)
            let request = wanted.map { wanted in
                state.withLock { $0.limited(wanted, to: turn.claiming, most: most, slots: slots) }
            }
            guard request != nil || !turn.settlements.isEmpty else { return true }
            let exchange = try await store.exchange(turn.settlements, claiming: request)
            for claimed in exchange.jobs { send(claimed) }
            report(turn.settlements, exchange)
            guard let request else { return true }
            let (count, limit) = (exchange.jobs.count, request.limit)
            let sentCount = exchange.jobs.filter { $0.result == nil }.count
            let hasMoreGroups = state.withLock { $0.claimed(sentCount, of: limit, for: turn.claiming) }
            if count < limit {
                await becomeIdle(next: exchange.next)
            } else if count > 0, hasMoreRoom, !hasMoreGroups {
                lookForWork()
            }
            return true
        } catch {
            state.withLock { $0.putBack(turn) }
            configuration.onError?(error)
            // The cause may be a full disk or another process's lock. No outcome is lost; the exchange is repeated.
            wake(after: .seconds(5))
            return false
        }
    }

    func report(_ settlements: [Settlement], _ exchange: Exchange) {
        guard let onOutcome = configuration.onOutcome else { return }
        let reports = state.withLock { $0.takeReports(of: settlements, exchange.isSettled) }
        for report in reports { onOutcome(report.job, report.verdict, report.attempt) }
    }

    private func claimRequest(for turn: DurableQueueState.Turn) async throws(QueueError) -> ClaimRequest {
        let room = turn.room
        let (handled, handlesAll, running) = state.withLock { state in
            (Set(state.handlers.keys), state.otherwise != nil, state.inFlight.count + state.settlements.count)
        }
        if handlesAll { return ClaimRequest(limit: room, lease: configuration.lease, answeredKinds: .all) }
        // Running jobs are counted too, because each of them may end as a result that waits for a handler.
        let waiting = try await store.status()[.answered] + running + turn.settlements.count
        let isFull = waiting >= configuration.maxWaitingResultCount
        let limit = isFull ? room : min(room, configuration.maxWaitingResultCount - waiting)
        return ClaimRequest(
            limit: limit, lease: configuration.lease, kinds: isFull ? .only(handled) : .all,
            answeredKinds: .only(handled))
    }

    var leastPerHost: Int { max(1, manager.configuration.maxConcurrentPerHost) }

    /// Four times the number of jobs that the manager sends to a host at once, so that sending continues during an
    /// exchange with the store, or an eighth of all claims if that is more; at most three quarters of all claims.
    var maxPerHost: Int {
        let all = configuration.maxClaimedJobCount
        // Both limits may be `Int.max`, so the products are computed without overflow.
        let mostOfAll = all / 4 * 3 + all % 4 * 3 / 4
        return min(max(4 * min(leastPerHost, .max / 4), all / 8), max(1, mostOfAll))
    }

    /// Replaces an earlier timer.
    private func set(
        _ timer: WritableKeyPath<DurableQueueState, ClockTimer?> & Sendable, after delay: Duration,
        _ body: @escaping @Sendable (DurableQueue) -> Void
    ) {
        let clock = manager.configuration.clock
        let new = clock.wake(at: clock.now + delay) { [weak self] in if let self { body(self) } }
        let earlier = state.withLock { state in
            defer { state[keyPath: timer] = new }
            return state[keyPath: timer]
        }
        earlier?.cancel()
    }

    private func setSilenceTimer() {
        set(\.silenceTimer, after: .seconds(1)) { queue in
            queue.findSilent()
            let isOver = queue.state.withLock { state in
                if state.inFlight.isEmpty { state.silenceTimer = nil }
                return state.inFlight.isEmpty
            }
            if !isOver { queue.setSilenceTimer() }
        }
    }

    private func findSilent() {
        let now = manager.configuration.clock.now
        var (operations, unsent): ([Claim: AnyRequestOperation], [Claim]) = ([:], [])
        let sights = state.withLock { $0.inFlight.values }.compactMap { flight -> DurableQueueState.Sight? in
            guard let operation = flight.sending?.operation else { return nil }
            operations[flight.claim] = operation
            let timings = operation.timings
            // The time in interceptors does not count, up to the second between two searches.
            let isUnsent = timings.started != nil && timings.firstByte == nil && operation.sentRequests.isEmpty
            if isUnsent { unsent.append(flight.claim) }
            var stage = DurableQueueState.Sight.Stage.waiting
            if timings.firstByte != nil {
                stage = .answered
            } else if let start = timings.started {
                let sent = max(start, (isUnsent ? now : flight.unsent) ?? start)
                stage = .sent(since: sent, isIdempotent: operation.request?.method.isIdempotent ?? false)
            }
            return DurableQueueState.Sight(claim: flight.claim, host: flight.host, stage: stage)
        }
        let cancelled = state.withLock { state in
            for claim in unsent where state.inFlight[claim.id]?.claim == claim {
                state.inFlight[claim.id]?.unsent = now
            }
            return state.findSilent(sights, at: now)
        }
        for claim in cancelled { operations[claim]?.cancel() }
        wakeUp.yield()
    }

    /// Called when no more jobs can be claimed.
    private func becomeIdle(next: Duration?) async {
        let waits = [next, store.pollInterval].compactMap { $0 }
        if let wait = waits.min() { wake(after: wait) }
        await purge()
        // These callers of `drain` are removed before the status is read. Later callers may wait for jobs that this
        // status does not include.
        let drainers = state.withLock { state in
            state.inFlight.isEmpty && state.settlements.isEmpty ? state.takeDrainers() : []
        }
        guard !drainers.isEmpty else { return }
        do throws(QueueError) {
            let status = try await store.status()
            if status[.waiting] == 0, status[.claimed] == 0 {
                for drainer in drainers { drainer.resume() }
                return
            }
            // This queue polls, because the store does not notify of the end of another queue's job.
            if status[.claimed] > 0 { wake(after: min(.seconds(1), waits.min() ?? .seconds(1))) }
        } catch {
            configuration.onError?(error)
            wake(after: .seconds(5))
        }
        let isOver = state.withLock { state in
            if !state.isManagerShutDown { state.drainers += drainers }
            return state.isManagerShutDown
        }
        if isOver { for drainer in drainers { drainer.resume() } }
    }

    private func purge() async {
        let (now, age) = (manager.configuration.clock.now, configuration.keepsFinished)
        let isDue = state.withLock { state in
            if let last = state.lastPurge, last + age / 10 > now { return false }
            state.lastPurge = now
            return true
        }
        guard isDue, let count = try? await store.purge(olderThan: age), count > 0 else { return }
        // More jobs may be old, so the next turn of the loop purges again. One call deletes at most 5,000 jobs, so that
        // outcomes and renewals of leases do not wait for millions of deletions.
        state.withLock { $0.lastPurge = nil }
        lookForWork()
    }

    private func wake(after delay: Duration) { set(\.workTimer, after: delay) { $0.lookForWork() } }

    var heartbeatInterval: Duration { max(.seconds(1), configuration.lease) / 3 }

    /// The heartbeat renews the leases if jobs are running then.
    private func setHeartbeat() {
        set(\.heartbeat, after: heartbeatInterval) { queue in
            let isNeeded = queue.state.withLock { state in
                state.needsHeartbeat = !state.inFlight.isEmpty
                // During a pause, nothing renews the leases. The heartbeat ends the pause, because a lease may end
                // before the pause does.
                state.resume()
                if state.inFlight.isEmpty { state.heartbeat = nil }
                return state.needsHeartbeat
            }
            if isNeeded { queue.wakeUp.yield() }
        }
    }

    private func lose(_ claim: Claim) {
        let sending = state.withLock { state -> DurableQueueState.Sending? in
            guard state.inFlight[claim.id]?.claim == claim else { return nil }
            // The lost claim makes room for another job, and `drain` may have nothing left to wait for.
            state.mayHaveWork = true
            return state.inFlight.removeValue(forKey: claim.id)?.sending
        }
        sending?.operation.cancel()
        for finisher in state.withLock({ $0.takeFinishers() }) { finisher.resume() }
    }

    // MARK: Sending

    func send(_ claimed: ClaimedJob) {
        let (isWorking, isFirst, isUnwatched, earlier) = state.withLock { state in
            // If another queue ended the lease of this queue, for example while this process was stopped, an earlier
            // request for the job may still run. It is cancelled below.
            let earlier = state.inFlight[claimed.job.id]?.sending
            state.inFlight[claimed.job.id] = DurableQueueState.InFlight(
                claim: claimed.claim, host: claimed.job.request.host)
            return (state.phase == .working, state.heartbeat == nil, state.silenceTimer == nil, earlier)
        }
        earlier?.operation.cancel()
        guard isWorking else { return end(claimed, .release, attempt: nil) }
        if isFirst { setHeartbeat() }
        if isUnwatched { setSilenceTimer() }
        if claimed.lapseCount > 0, claimed.result == nil, let file = claimed.job.request.destination,
            PartName(file.lastPathComponent).noteGrowth(in: file.deletingLastPathComponent().path)
        {
            // The lost process has received bytes, so its loss does not count. This verdict resets the number of lapses.
            // The job is then claimed again.
            return end(claimed, .retry(after: .zero), attempt: nil, isReported: false)
        }
        if claimed.lapseCount >= max(1, configuration.maxLapses) {
            return end(
                claimed,
                .dead(
                    "\(JobLife.lapses(claimed.lapseCount)): check whether the job or its handler crashes it, and then "
                        + "retry the job"), attempt: nil)
        }
        if let result = claimed.result { return handle(result, of: claimed, attempt: nil) }
        let job = claimed.job
        // The queue retries instead of the manager, whose wait before a retry would not survive a crash.
        var request = job.request.sendable(body: job.request.body)
            .header("Idempotency-Key", job.idempotencyKey).retries(.never).priority(job.priority).named("job \(job.id)")
        if claimed.attemptCount > 0 { request = request.countingAttempts(from: claimed.attemptCount) }
        if let redirects = redirects(of: job) { request = request.redirects(redirects) }
        if let destination = job.request.destination {
            start(manager.internalOperation(request.saved(to: destination)), claimed) { _ in Data() }
        } else if configuration.ignoresBodies {
            start(manager.internalOperation(request.ignoringBody()), claimed) { _ in Data() }
        } else {
            start(manager.internalOperation(request), claimed) { $0 }
        }
    }

    private func start<Output>(
        _ operation: RequestOperation<Output>, _ claimed: ClaimedJob, _ body: @escaping @Sendable (Output) -> Data
    ) {
        let clock = manager.configuration.clock
        let (date, begin) = (clock.date, clock.now)
        operation.onFinish(on: .inPlace) { [weak self] result in
            var attempt = JobAttempt(started: date, milliseconds: Int64(clamping: begin.duration(to: clock.now)))
            switch result {
            case .success(let response):
                attempt.statusCode = response.statusCode
                self?.state.withLock { $0.noteAnswer(of: claimed.job.request.host, at: clock.now) }
                let result = JobResult(
                    statusCode: response.statusCode, headerFields: response.headerFields, body: body(response.value))
                self?.handle(result, of: claimed, attempt: attempt)
            case .failure(let error):
                attempt.statusCode = error.response?.statusCode
                if error.response != nil {
                    self?.state.withLock { $0.noteAnswer(of: claimed.job.request.host, at: clock.now) }
                }
                (attempt.failure, attempt.message) = (error.code.rawValue, error.message)
                self?.handle(error, of: claimed, attempt: attempt)
            }
        }
        let sending: DurableQueueState.Sending = (operation, { _ = try? await operation.response() })
        state.withLock { state in
            if state.inFlight[claimed.job.id]?.claim == claimed.claim {
                state.inFlight[claimed.job.id]?.sending = sending
            }
        }
        manager.enqueue(operation)
    }

    private func handle(_ error: RequestError, of claimed: ClaimedJob, attempt: JobAttempt) {
        // After the manager's shutdown nothing can be sent, so callers of `drain` no longer wait. A cancelled request
        // has no result, so its job is released.
        if error.code == .managerShutDown {
            let drainers = state.withLock { state in
                state.isManagerShutDown = true
                return state.takeDrainers()
            }
            for drainer in drainers { drainer.resume() }
        }
        if error.code == .cancelled || error.code == .managerShutDown {
            return end(claimed, .release, attempt: nil)
        }
        // Another download is writing the same file, so nothing was sent, and the attempt does not count.
        if error.code == .destinationInUse {
            return end(claimed, .retry(after: heartbeatInterval), attempt: attempt, isCounted: false)
        }
        let (number, policy) = (claimed.attemptCount + 1, configuration.retries)
        if isTransient(error) {
            guard number <= policy.maxRetries else {
                var result = failure(of: claimed, error)
                result.failure = "given up after \(number) attempts: \(error.message)"
                return handle(result, of: claimed, attempt: attempt)
            }
            let date = manager.configuration.clock.date
            let asked = error.response.flatMap { policy.retryAfter(in: $0, now: date) }
            let wait = asked ?? policy.delay(beforeRetry: number, unit: manager.configuration.jitter())
            return end(claimed, .retry(after: wait), attempt: attempt)
        }
        handle(failure(of: claimed, error), of: claimed, attempt: attempt)
    }

    private func failure(of claimed: ClaimedJob, _ error: RequestError) -> JobResult {
        JobResult(
            statusCode: error.response?.statusCode, headerFields: error.response?.headerFields ?? [:],
            body: error.body ?? Data(), isBodyCut: error.body?.count ?? 0 >= 65_536,
            failure: JobRedirects.failure(error, of: claimed.job) ?? error.message)
    }

    private func isTransient(_ error: RequestError) -> Bool {
        if error.code == .unacceptableStatus {
            return error.response.map { configuration.retries.statusCodes.contains($0.statusCode) } ?? false
        }
        return error.isRetryable || error.code.facts.contains(.mendable)
            || configuration.retries.errorCodes.contains(error.code)
    }

    /// Without a handler, a success waits in the store, and a failure becomes a dead letter.
    private func handle(_ result: JobResult, of claimed: ClaimedJob, attempt: JobAttempt?) {
        let handler = state.withLock { state in
            if state.inFlight[claimed.job.id]?.claim == claimed.claim { state.inFlight[claimed.job.id]?.sending = nil }
            return state.handler(of: claimed.job.kind)
        }
        guard let handler else {
            if let failure = result.failure { return end(claimed, .dead(failure), attempt: attempt) }
            var kept = result
            kept.isBodyCut = result.isBodyCut || result.body.count > configuration.maxWaitingResultBytes
            // The store saves no secrets, such as cookies that a response sets.
            let fields = result.headerFields.filter { !$0.isSecret }
            kept.headerFields = HeaderFields(fields.map { ($0.name, $0.value) })
            kept.body = result.body.prefix(configuration.maxWaitingResultBytes)
            return end(claimed, .answered(kept), attempt: attempt)
        }
        var told = result
        told.attemptCount = claimed.attemptCount + (attempt == nil ? 0 : 1)
        told.isGivenUp = told.attemptCount > configuration.retries.maxRetries || told.isExpired
        Task { [told] in
            switch await handler(claimed.job, told) {
            case .done: end(claimed, .done, attempt: attempt)
            case .retry where told.isGivenUp:
                let reason =
                    told.failure ?? "given up after \(told.attemptCount) attempts: its handler asked for another"
                end(claimed, .dead(reason), attempt: attempt)
            case .retry(let delay): end(claimed, .retry(after: max(.zero, delay)), attempt: attempt)
            case .fail(let reason): end(claimed, .dead(reason), attempt: attempt)
            }
        }
    }

    // If not `isCounted`, only ``Configuration/onOutcome`` receives the attempt. It never receives a release.
    private func end(
        _ claimed: ClaimedJob, _ verdict: JobVerdict, attempt: JobAttempt?, isCounted: Bool = true,
        isReported: Bool = true
    ) {
        let settlement = Settlement(claimed.claim, verdict, attempt: isCounted ? attempt : nil)
        let limit = configuration.maxClaimedJobCount
        let isReported = isReported && verdict != .release && configuration.onOutcome != nil
        let report = isReported ? (job: claimed.job, attempt: attempt) : nil
        let (isDue, finishers) = state.withLock { state in
            (state.end(settlement, limit: limit, report: report), state.takeFinishers())
        }
        defer { for finisher in finishers { finisher.resume() } }
        if isDue == true { wakeUp.yield() }
        guard isDue == false else { return }
        // Outcomes of the next 4 ms are written in the same commit. The delay uses the system's clock instead of the
        // manager's clock, because no rule of the queue depends on the delay.
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(4)) { [weak self] in
            guard let self, state.withLock({ $0.settle(from: claimed.claim) }) else { return }
            wakeUp.yield()
        }
    }

    // MARK: Stopping

    /// Stops the queue at once: cancels running requests and releases their jobs.
    ///
    /// The queue that claims these jobs next sends them again with the same `Idempotency-Key`.
    ///
    /// The function does not wait for running handlers. The queue can be started again. A second call during the stop
    /// returns when the first one does.
    public func stop() async {
        let stopping = state.withLock { state in
            guard state.phase == .working || state.phase == .finishing else { return state.stopping }
            state.phase = .stopping
            state.workTimer?.cancel()
            state.heartbeat?.cancel()
            state.heartbeat = nil
            let (loop, listener) = (state.loop, state.listener)
            state.stopping = Task { await finishStopping(loop, listener) }
            return state.stopping
        }
        await stopping?.value
    }

    private func finishStopping(_ loop: Task<Void, Never>?, _ listener: Task<Void, Never>?) async {
        listener?.cancel()
        wakeUp.yield()
        await loop?.value
        let sendings = state.withLock { $0.inFlight.values.compactMap(\.sending) }
        for sending in sendings { sending.operation.cancel() }
        for sending in sendings { await sending.finish() }
        let rest = state.withLock { state in
            defer {
                state.settlements = []
                state.inFlight = [:]
            }
            return state.settlements
        }
        do throws(QueueError) {
            if !rest.isEmpty { report(rest, try await store.exchange(rest, claiming: nil)) }
        } catch { configuration.onError?(error) }
        // A job whose outcome could not be written is released too, and sent again with the same `Idempotency-Key`.
        do throws(QueueError) { try await store.release() } catch { configuration.onError?(error) }
        let waiters = state.withLock { state in
            (state.phase, state.stopping) = (.idle, nil)
            state.unreported = [:]
            return state.takeDrainers() + state.takeFinishers(isOver: true)
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Stops the queue when running jobs have ended, or after a time.
    ///
    /// Use this function before a deployment. With ``stop()``, running jobs would be sent a second time.
    ///
    /// The queue releases jobs that have not started. Running requests and their handlers continue, and their leases
    /// are renewed. Requests that have not ended in time are cancelled, as with ``stop()``.
    ///
    /// - Parameter patience: the maximum time, on the manager's clock.
    public func stop(finishingWithin patience: Duration) async {
        let sendings = state.withLock { state -> [DurableQueueState.Sending]? in
            guard state.phase == .working else { return nil }
            state.phase = .finishing
            return state.inFlight.values.compactMap(\.sending)
        }
        guard let sendings else { return await stop() }
        for sending in sendings where !sending.operation.isExecuting { sending.operation.cancel() }
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + patience) { [weak self] in
            for finisher in self?.state.withLock({ $0.takeFinishers(isOver: true) }) ?? [] { finisher.resume() }
        }
        await withCheckedContinuation { continuation in
            let finishers = state.withLock { state in
                state.finishers.append(continuation)
                return state.takeFinishers(isOver: state.phase != .finishing)
            }
            for finisher in finishers { finisher.resume() }
        }
        timer.cancel()
        await stop()
    }

    /// Stops the queue, and closes its store.
    public func close() async {
        await stop()
        await store.close()
    }
}

extension DurableQueue {
    /// The settings of a queue.
    ///
    /// ## Topics
    /// - ``retries``
    /// - ``maxClaimedJobCount``
    /// - ``lease``
    public struct Configuration: Sendable {
        /// The maximum number of claimed jobs, including those whose outcome is being written; 256 by default.
        ///
        /// The queue claims more than its manager sends at once, so that the manager does not wait for the disk.
        public var maxClaimedJobCount = 256
        /// How long claims of the queue are valid without renewal; 30 seconds by default.
        ///
        /// The queue renews its leases three times in that period. A process that pauses for longer loses its jobs if
        /// another process works on the queue meanwhile. If a process ends, others notice at once (SQLite on Linux), at
        /// their next exchange (SQLite on Apple platforms), or when the lease ends (PostgreSQL).
        public var lease = Duration.seconds(30)
        /// When a job is sent again after a failure that may be temporary.
        ///
        /// The default is 1,000 retries, which cover more than four days. Without a `Retry-After` of the server, the
        /// wait before a retry is at most one second, then two, four and so on up to 15 minutes. The store saves it.
        ///
        /// Attempts are counted since the job was added, or last retried as a dead letter. A handler receives failures
        /// that a retry cannot fix. A host name without an address is retried, because a missing network looks the
        /// same; a manager would retry it only once.
        public var retries = RetryPolicy(maxRetries: 1_000, baseDelay: .seconds(1), maxDelay: .seconds(900))
        /// The number of consecutive lapsed claims at which a job becomes a dead letter; 3 by default.
        ///
        /// A claim lapses when its process ends, or when another process finds that the lease has ended. The limit
        /// protects against a job or handler that crashes its process at each start. From the second lapse on, the job
        /// waits 1, 2, 4 and so on up to 64 seconds before it is sent again.
        ///
        /// A lapse does not count if the partial file of the job's download has grown.
        public var maxLapses = 3
        /// The number of waiting results at which jobs of kinds without a handler are not sent; 1,000 by default.
        public var maxWaitingResultCount = 1_000
        /// The maximum size in bytes of a body in a waiting result; 1 MiB by default.
        public var maxWaitingResultBytes = 1 << 20
        /// Whether the bodies of successful responses are discarded; false by default.
        ///
        /// If true, handlers of successful jobs receive an empty body; those of failed jobs still receive up to 64 KiB.
        /// If false, a response body stays in memory until its handler has finished: limit its size with `maxBodyBytes`
        /// of the manager's configuration. The body of a download is written to its file.
        public var ignoresBodies = false
        /// How long done and cancelled jobs stay in the store, which then recognises a repeated id; a day by default.
        public var keepsFinished = Duration.seconds(86_400)
        /// Called for each outcome of a claimed job, with its verdict: done, answered, retried or dead letter.
        ///
        /// The queue calls the function when the verdict is on the disk, one call at a time. The function must return
        /// soon, because the queue claims no jobs and renews no leases during the call. After a crash or a failed
        /// commit the call may be missing. There is no call for cancelled or released jobs, and for expired jobs
        /// without a handler.
        public var onOutcome: (@Sendable (_ job: Job, _ verdict: JobVerdict, _ attempt: JobAttempt?) -> Void)?
        /// Called for failures of the store while the queue works, which lose no job and are tried again after seconds.
        public var onError: (@Sendable (QueueError) -> Void)?

        /// Makes a configuration with the defaults.
        public init() {}
    }
}

struct DurableQueueState {
    struct InFlight {
        var claim: Claim
        var host = ""
        /// Nil before it is created, and while the handler runs.
        var sending: Sending?
        var unsent: ContinuousClock.Instant?
    }

    typealias Sending = (operation: AnyRequestOperation, finish: @Sendable () async -> Void)

    struct Turn {
        var settlements: [Settlement] = []
        var room = 0
        var claiming = Claiming.all
        var renewing: [Claim]?
        fileprivate var resumeCount = 0
    }

    /// While a host is silent, successive turns claim for one group of hosts after another, so that silent hosts cannot
    /// use up all claims and slots.
    enum Claiming {
        /// All hosts, because none is silent.
        case all
        /// Hosts that have answered. Next: new.
        case answering
        /// Hosts that have not answered yet, one job of each. Next: silent, if all these hosts have been claimed for.
        case new
        /// Silent hosts. Next: rest, or all if no host is silent any more.
        case silent
        /// Hosts that have answered get the claims that new and silent hosts have left.
        case rest
    }

    struct Sight {
        enum Stage: Equatable {
            case waiting
            case sent(since: ContinuousClock.Instant, isIdempotent: Bool)
            case answered
        }

        var claim: Claim
        var host: String
        var stage: Stage
    }

    enum Phase {
        /// The queue was not started, or has stopped. Next: starting.
        case idle
        /// Next: working.
        case starting
        /// The loop runs. Next: finishing, stopping.
        case working
        /// Running jobs continue. Next: stopping.
        case finishing
        /// Running jobs are cancelled. Next: idle.
        case stopping
    }

    var phase = Phase.idle
    var handlers: [String: DurableQueue.Handler] = [:]
    var otherwise: DurableQueue.Handler?
    var inFlight: [String: InFlight] = [:]
    var settlements: [Settlement] = []
    var unreported: [Claim: (job: Job, attempt: JobAttempt?)] = [:]
    private(set) var mustSettle = false
    /// No turn follows until ``resume()`` is called, however many jobs end.
    private(set) var isPaused = false
    private var resumeCount = 0
    private(set) var answeredHosts: [String: ContinuousClock.Instant] = [:]
    /// True if the first requests of a host that has never answered may still be cancelled for others.
    private(set) var silentHosts: [String: Bool] = [:]
    /// True if the last claim for new hosts found as many jobs as it asked for.
    var hasMoreHosts = false
    private var nextClaiming: Claiming?
    var mayHaveWork = true
    var needsHeartbeat = false
    private var cancelledCount: Int?
    var workTimer: ClockTimer?
    var heartbeat: ClockTimer?
    var silenceTimer: ClockTimer?
    var loop: Task<Void, Never>?
    var listener: Task<Void, Never>?
    var stopping: Task<Void, Never>?
    var drainers: [CheckedContinuation<Void, Never>] = []
    var finishers: [CheckedContinuation<Void, Never>] = []
    var lastPurge: ContinuousClock.Instant?
    var isManagerShutDown = false

    func handler(of kind: String) -> DurableQueue.Handler? { handlers[kind] ?? otherwise }

    // Nil during a pause, or without work. Every turn writes all settlements, also those held back for a common
    // commit.
    mutating func takeTurn(limit: Int) -> Turn? {
        guard !isPaused else { return nil }
        let room = phase == .working && !isManagerShutDown ? max(0, limit - inFlight.count) : 0
        guard mustSettle || needsHeartbeat || (mayHaveWork && room > 0) else { return nil }
        var turn = Turn(settlements: settlements, resumeCount: resumeCount)
        if !settlements.isEmpty { mayHaveWork = true }
        (settlements, mustSettle) = ([], false)
        if needsHeartbeat {
            turn.renewing = inFlight.values.map(\.claim)
            needsHeartbeat = false
        }
        if mayHaveWork, room > 0 {
            turn.room = room
            turn.claiming = nextClaiming ?? (silentHosts.isEmpty ? .all : .answering)
            (mayHaveWork, nextClaiming) = (false, nil)
        }
        return turn
    }

    var hostCounts: [String: Int] { inFlight.values.reduce(into: [:]) { $0[$1.host, default: 0] += 1 } }

    // MARK: Hosts that do not answer

    private static let maxHostCount = 1_000
    /// A host that has answered before may be slow, so it gets more time.
    private static let (patience, patienceAfterAnswer) = (Duration.milliseconds(1_500), Duration.seconds(10))

    /// `most` counts the claimed jobs of a host, and `slots` the jobs that the manager sends at once.
    func limited(_ wanted: ClaimRequest, to claiming: Claiming, most: Int, slots: Int) -> ClaimRequest {
        var (request, counts) = (wanted, hostCounts)
        // A host without running jobs has all of its room.
        func rooms(_ hosts: some Sequence<String>) -> [String: Int] {
            hosts.reduce(into: [:]) { $0[$1] = max(0, most - (counts[$1] ?? 0)) }
        }
        // There may be fewer claims than slots.
        let slots = min(slots, inFlight.count + request.limit)
        // Hosts that do not answer, or not yet, leave a quarter of the slots to the others, and at least one.
        let others = counts.reduce(0) { answeredHosts[$1.key] == nil ? $0 + $1.value : $0 }
        let spare = max(1, slots - max(1, slots / 4)) - others
        request.maxPerHost = claiming == .all ? most : claiming == .new ? 1 : 0
        switch claiming {
        case .all: request.rooms = rooms(counts.keys)
        case .answering, .rest:
            if claiming == .answering { request.limit = max(0, request.limit - max(0, spare)) }
            request.rooms = rooms(answeredHosts.keys)
        case .new:
            request.limit = min(request.limit, max(hasMoreHosts ? 0 : 1, spare))
            for host in Array(counts.keys) + answeredHosts.keys + silentHosts.keys { request.rooms[host] = 0 }
        case .silent:
            request.limit = min(request.limit, max(0, spare))
            request.rooms = rooms(silentHosts.keys)
        }
        return request
    }

    // Called after a claim that was limited to some hosts. Returns whether the next turn claims for the next group.
    mutating func claimed(_ count: Int, of limit: Int, for claiming: Claiming) -> Bool {
        switch claiming {
        case .all, .rest: return false
        case .answering: nextClaiming = .new
        case .new:
            if limit > 0 { hasMoreHosts = count == limit }
            guard count < limit else { return false }
            nextClaiming = .silent
        case .silent:
            // A host without a running or ready job is forgotten, so that the claims in groups end.
            if count < limit {
                let counts = hostCounts
                silentHosts = silentHosts.filter { counts[$0.key] != nil }
            }
            nextClaiming = silentHosts.isEmpty ? .all : .rest
        }
        mayHaveWork = true
        return true
    }

    mutating func noteAnswer(of host: String, at now: ContinuousClock.Instant) {
        silentHosts[host] = nil
        if answeredHosts[host] == nil, answeredHosts.count >= Self.maxHostCount, let other = answeredHosts.first?.key {
            answeredHosts[other] = nil
        }
        answeredHosts[host] = now
    }

    // Returns the claims whose requests must be cancelled: those to newly silent hosts that still wait for a slot,
    // because other queues may have room for their jobs. If jobs of other hosts wait, also the first requests to a
    // host that has never answered, once for each host, and only if they are idempotent.
    mutating func findSilent(_ sights: [Sight], at now: ContinuousClock.Instant) -> [Claim] {
        for sight in sights where sight.stage == .answered { noteAnswer(of: sight.host, at: now) }
        var new: Set<String> = []
        for sight in sights where silentHosts[sight.host] == nil && !sight.host.isEmpty {
            guard case .sent(let start, _) = sight.stage else { continue }
            let last = answeredHosts[sight.host]
            guard
                max(start, last ?? start).duration(to: now) >= (last == nil ? Self.patience : Self.patienceAfterAnswer)
            else { continue }
            if silentHosts.count >= Self.maxHostCount, let other = silentHosts.first?.key { silentHosts[other] = nil }
            silentHosts[sight.host] = answeredHosts.removeValue(forKey: sight.host) == nil
            new.insert(sight.host)
        }
        let othersWait = hasMoreHosts || sights.contains { $0.stage == .waiting && silentHosts[$0.host] == nil }
        var (cancelled, hosts): ([Claim], Set<String>) = ([], [])
        for sight in sights {
            switch sight.stage {
            case .waiting where new.contains(sight.host): cancelled.append(sight.claim)
            case .sent(_, isIdempotent: true) where othersWait && silentHosts[sight.host] == true:
                cancelled.append(sight.claim)
                hosts.insert(sight.host)
            case .waiting, .sent, .answered: break
            }
        }
        for host in hosts { silentHosts[host] = false }
        if !new.isEmpty { mayHaveWork = true }
        return cancelled
    }

    mutating func takeDrainers() -> [CheckedContinuation<Void, Never>] {
        defer { drainers = [] }
        return drainers
    }

    /// Removes and returns ``finishers`` if no job is running or their time is over; otherwise returns none.
    mutating func takeFinishers(isOver: Bool = false) -> [CheckedContinuation<Void, Never>] {
        guard isOver || inFlight.isEmpty else { return [] }
        defer { finishers = [] }
        return finishers
    }

    /// Pauses unless the state was resumed during the turn, for example by a notification of the store.
    mutating func putBack(_ turn: Turn) {
        isPaused = turn.resumeCount == resumeCount
        settlements = turn.settlements + settlements
        mustSettle = !settlements.isEmpty
        if turn.room > 0 { mayHaveWork = true }
        if turn.renewing != nil { needsHeartbeat = true }
    }

    mutating func takeReports(
        of settlements: [Settlement], _ isSettled: [Bool]
    ) -> [(job: Job, verdict: JobVerdict, attempt: JobAttempt?)] {
        zip(settlements, isSettled).compactMap { settlement, isSettled in
            guard let outcome = unreported.removeValue(forKey: settlement.claim), isSettled else { return nil }
            return (outcome.job, settlement.verdict, outcome.attempt)
        }
    }

    // A running job may be among the cancelled ones. Other changes cause no renewal, because each renewal costs a
    // commit.
    mutating func note(cancelledCount count: Int) -> Bool {
        guard count != cancelledCount else { return false }
        (cancelledCount, needsHeartbeat) = (count, true)
        return true
    }

    mutating func resume() { (isPaused, resumeCount) = (false, resumeCount &+ 1) }

    // Returns whether to write the outcomes at once. If false, they are written after a few milliseconds, because one
    // commit of many costs as much as one of one. Nil if an earlier outcome causes that, during the pause that follows
    // an error of the store, and for a lost claim.
    mutating func end(_ settlement: Settlement, limit: Int, report: (job: Job, attempt: JobAttempt?)? = nil) -> Bool? {
        guard inFlight[settlement.claim.id]?.claim == settlement.claim else { return nil }
        inFlight[settlement.claim.id] = nil
        unreported[settlement.claim] = report
        settlements.append(settlement)
        // At a quarter of the limit the outcomes are written at once, and also if they are as many as the running jobs,
        // because the manager would soon have nothing to send.
        if isPaused || settlements.count >= min(limit / 4, inFlight.count) { mustSettle = true }
        return isPaused || (!mustSettle && settlements.count > 1) ? nil : mustSettle
    }

    /// Returns false if an earlier turn has written the first of the settlements.
    mutating func settle(from first: Claim) -> Bool {
        if settlements.first?.claim == first { mustSettle = true }
        return mustSettle
    }
}
