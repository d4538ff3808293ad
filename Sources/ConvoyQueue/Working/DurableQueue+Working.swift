// The loop: settle, claim, send.
import Convoy
import Foundation

extension DurableQueue {
    /// Starts to claim and send jobs, including those of an earlier run.
    ///
    /// The call has no effect if the queue is already running or is stopping.
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
    /// Returns early when the queue is stopped or its manager is shut down.
    ///
    /// The function does not wait for dead letters, jobs blocked by dead letters, and results without a handler. It
    /// returns at once if the queue was not started.
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

    func lookForWork() {
        state.withLock { state in
            state.mayHaveWork = true
            state.resume()
        }
        wakeUp.yield()
    }

    /// Handles a notification of the store: jobs may be ready, or running jobs may have been cancelled.
    private func lookForChanges() async {
        lookForWork()
        guard let status = try? await store.status() else { return }
        if state.withLock({ $0.note(cancelledCount: status[.cancelled]) }) { wakeUp.yield() }
    }

    // MARK: The loop, heartbeats and wake-ups

    /// Runs one exchange and starts the claimed jobs.
    ///
    /// Returns false if there was nothing to do or the store failed; otherwise the loop calls `turn` again at once.
    private func turn() async -> Bool {
        let limit = max(1, configuration.maxClaimedJobCount)
        guard let turn = state.withLock({ $0.takeTurn(limit: limit) }) else { return false }
        do throws(QueueError) {
            if let claims = turn.renewing {
                for lost in try await store.renew(claims, for: max(.seconds(1), configuration.lease)) { lose(lost) }
                setHeartbeat()
            }
            var request = turn.room > 0 ? try await claimRequest(for: turn) : nil
            // The maximum number of waiting results has limited this claim. Jobs of kinds with a handler may still be
            // claimable.
            let hasMoreRoom = request.map { $0.limit < turn.room } ?? false
            let (most, slots) = (maxPerHost, manager.configuration.maxConcurrentOperationCount)
            if var limited = request {
                state.withLock { $0.limit(&limited, to: turn.claiming, most: most, slots: slots) }
                request = limited
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
            // The cause may be a full disk or another process's lock. No outcome is lost, and the exchange is repeated
            // after five seconds.
            wake(after: .seconds(5))
            return false
        }
    }

    /// Reports the outcomes that the store has accepted.
    func report(_ settlements: [Settlement], _ exchange: Exchange) {
        guard let onOutcome = configuration.onOutcome else { return }
        let reports = state.withLock { $0.takeReports(of: settlements, exchange.isSettled) }
        for report in reports { onOutcome(report.job, report.verdict, report.attempt) }
    }

    private func claimRequest(for turn: DurableQueueState.Turn) async throws(QueueError) -> ClaimRequest {
        let room = turn.room
        let (handled, handlesAll) = state.withLock { (Set($0.handlers.keys), $0.otherwise != nil) }
        if handlesAll { return ClaimRequest(limit: room, lease: configuration.lease, answeredKinds: .all) }
        // Running jobs are counted too, because each of them may end as a result that waits for a handler.
        let inFlight = state.withLock { $0.inFlight.count + $0.settlements.count } + turn.settlements.count
        let waiting = try await store.status()[.answered] + inFlight
        let isFull = waiting >= configuration.maxWaitingResultCount
        let limit = isFull ? room : min(room, configuration.maxWaitingResultCount - waiting)
        return ClaimRequest(
            limit: limit, lease: configuration.lease, kinds: isFull ? .only(handled) : .all,
            answeredKinds: .only(handled))
    }

    /// The maximum number of jobs of one host that the manager sends at once, but at least 1.
    var leastPerHost: Int { max(1, manager.configuration.maxConcurrentPerHost) }

    /// The maximum number of claimed jobs of one host.
    ///
    /// The maximum is four times the number of jobs that the manager sends to a host at once. Sending therefore
    /// continues during an exchange with the store. If an eighth of all claims is more, the maximum is that eighth. The
    /// maximum never exceeds three quarters of all claims, but is at least 1.
    var maxPerHost: Int {
        let all = configuration.maxClaimedJobCount
        // Both limits may be `Int.max`, so the products are computed without overflow.
        let mostOfAll = all / 4 * 3 + all % 4 * 3 / 4
        return min(max(4 * min(leastPerHost, .max / 4), all / 8), max(1, mostOfAll))
    }

    /// Searches for hosts that do not answer every second while jobs are running, and releases jobs of these hosts.
    func setSilenceTimer() {
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + .seconds(1)) { [weak self] in
            guard let self else { return }
            findSilent()
            let isOver = state.withLock { state in
                if state.inFlight.isEmpty { state.silenceTimer = nil }
                return state.inFlight.isEmpty
            }
            if !isOver { setSilenceTimer() }
        }
        state.withLock { $0.silenceTimer = timer }
    }

    private func findSilent() {
        let now = manager.configuration.clock.now
        let flights = state.withLock { state in
            state.inFlight.values.compactMap { flight in
                flight.sending.map { (flight.claim, flight.host, $0.operation, flight.unsent) }
            }
        }
        var operations: [Claim: AnyRequestOperation] = [:]
        var unsent: [Claim] = []
        let sights = flights.map { claim, host, operation, lastUnsent in
            operations[claim] = operation
            let timings = operation.timings
            // The time in interceptors does not count, up to the second between two searches.
            let isUnsent = timings.started != nil && timings.firstByte == nil && operation.sentRequests.isEmpty
            if isUnsent { unsent.append(claim) }
            let begin = isUnsent ? now : lastUnsent
            let sent = timings.started.map { max($0, begin ?? $0) }
            let stage: DurableQueueState.Sight.Stage =
                timings.firstByte != nil
                ? .answered
                : sent.map {
                    .sent(since: $0, isIdempotent: operation.request?.method.isIdempotent ?? false)
                } ?? .waiting
            return DurableQueueState.Sight(claim: claim, host: host, stage: stage)
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

    /// Schedules the next exchange, and resumes callers of `drain` if no job waits or runs.
    ///
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
            // If other queues have claimed jobs, this queue polls, because the store does not notify of the end of a
            // job.
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

    /// Deletes done and cancelled jobs that are older than `keepsFinished`, usually once in a tenth of that time.
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

    /// Schedules an exchange after a time.
    ///
    /// Replaces an earlier schedule.
    private func wake(after delay: Duration) {
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + delay) { [weak self] in self?.lookForWork() }
        let earlier = state.withLock { state in
            defer { state.workTimer = timer }
            return state.workTimer
        }
        earlier?.cancel()
    }

    /// The time between two renewals of the leases: a third of their duration, and at least a third of a second.
    var heartbeatInterval: Duration { max(.seconds(1), configuration.lease) / 3 }

    /// Sets the timer of the next heartbeat.
    ///
    /// The heartbeat renews the leases if jobs are running then.
    func setHeartbeat() {
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + heartbeatInterval) { [weak self] in
            guard let self else { return }
            let isNeeded = state.withLock { state in
                state.needsHeartbeat = !state.inFlight.isEmpty
                // During a pause, nothing renews the leases. The heartbeat ends the pause, because a lease may end
                // before the pause does.
                state.resume()
                if state.inFlight.isEmpty { state.heartbeat = nil }
                return state.needsHeartbeat
            }
            if isNeeded { wakeUp.yield() }
        }
        let earlier = state.withLock { state in
            defer { state.heartbeat = timer }
            return state.heartbeat
        }
        earlier?.cancel()
    }

    /// Handles a claim that was lost: the job was cancelled or deleted, or another queue has ended the lease.
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
}
