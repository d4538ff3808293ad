// The loop: settle, claim, send.
import Convoy
import Foundation

extension DurableQueue {
    /// Begins to work: jobs are claimed and sent, those that were left by an earlier run among them.
    ///
    /// Again, or while it stops: no effect.
    ///
    /// - Parameters:
    ///   - handlers: by kind. A result of a kind without one waits: ``results(_:limit:)``.
    ///   - otherwise: for kinds that `handlers` does not name; nil, the default: none.
    public func start(_ handlers: [String: Handler] = [:], otherwise: Handler? = nil) {
        let isFirst = state.withLock { state in
            guard case .idle = state.phase else { return false }
            state.phase = .starting
            state.handlers = handlers
            state.otherwise = otherwise
            state.mayHaveWork = true
            return true
        }
        guard isFirst else { return }
        let (changes, wakeUps) = (store.changes(), wakeUps)
        let listener = Task { [weak self] in
            for await _ in changes { self?.lookForWork() }
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

    /// Waits until no job waits to be sent or is being sent, by this queue or another; returns early when the queue is stopped.
    ///
    /// Not waited for are dead letters, what is blocked by them, and results without a handler. Returns at once from a queue
    /// that was not started.
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
        state.withLock { $0.mayHaveWork = true }
        wakeUp.yield()
    }

    // MARK: The loop

    /// One transaction, and what follows of it; whether another should follow at once.
    private func turn() async -> Bool {
        let limit = max(1, configuration.maxClaimedJobCount)
        guard let turn = state.withLock({ $0.takeTurn(limit: limit) }) else { return false }
        do throws(QueueError) {
            if let claims = turn.renewing {
                for lost in try await store.renew(claims, for: max(.seconds(1), configuration.lease)) { lose(lost) }
                setHeartbeat()
            }
            let request = turn.room > 0 ? try await claimRequest(for: turn) : nil
            guard request != nil || !turn.settlements.isEmpty else { return true }
            let exchange = try await store.exchange(turn.settlements, claiming: request)
            for claimed in exchange.jobs { send(claimed) }
            if let request {
                if exchange.jobs.count < request.limit { await becomeIdle(next: exchange.next) } else { lookForWork() }
            }
            return true
        } catch {
            state.withLock { $0.putBack(turn) }
            configuration.onError?(error)
            // A full disk or a lock of another process: nothing is lost, and it is tried again.
            wake(after: .seconds(5))
            return false
        }
    }

    private func claimRequest(for turn: DurableQueueState.Turn) async throws(QueueError) -> ClaimRequest {
        let room = turn.room
        let (handled, handlesAll) = state.withLock { (Set($0.handlers.keys), $0.otherwise != nil) }
        if handlesAll { return bounded(ClaimRequest(limit: room, lease: configuration.lease, answeredKinds: .all)) }
        // What is under way may become a result that waits, too.
        let inFlight = state.withLock { $0.inFlight.count + $0.settlements.count } + turn.settlements.count
        let waiting = try await store.status()[.answered] + inFlight
        let isFull = waiting >= configuration.maxWaitingResultCount
        let limit = isFull ? room : min(room, configuration.maxWaitingResultCount - waiting)
        return bounded(
            ClaimRequest(
                limit: limit, lease: configuration.lease, kinds: isFull ? .only(handled) : .all,
                answeredKinds: .only(handled)))
    }

    /// As many of a host are sent at once.
    var leastPerHost: Int { max(1, manager.configuration.maxConcurrentPerHost) }

    /// The most jobs of one host that are claimed: enough for the next to be here when one ends, and never all.
    var maxPerHost: Int {
        let all = configuration.maxClaimedJobCount
        return min(max(2 * leastPerHost, all / 8), max(1, all * 3 / 4))
    }

    private func bounded(_ request: ClaimRequest) -> ClaimRequest {
        var request = request
        request.maxPerHost = maxPerHost
        request.rooms = state.withLock { $0.rooms(most: maxPerHost, least: leastPerHost) }
        return request
    }

    /// Gives back what waits for a host that does not move: others may have room for it, and it takes none of theirs.
    private func giveBackStuck() {
        let sendings = state.withLock { $0.findStuck(least: leastPerHost) }
        for sending in sendings where !sending.operation.isExecuting { sending.operation.cancel() }
    }

    /// Nothing more can be claimed for now.
    private func becomeIdle(next: Duration?) async {
        let waits = [next, store.pollInterval].compactMap { $0 }
        if let wait = waits.min() { wake(after: wait) }
        await purge()
        // Taken before the store is asked: those that come meanwhile may wait for jobs that it does not tell of.
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
            // Others' jobs: their end is not told.
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

    /// Deletes what is old, ten times in the time that it is kept.
    private func purge() async {
        let (now, age) = (manager.configuration.clock.now, configuration.keepsFinished)
        let isDue = state.withLock { state in
            if let last = state.lastPurge, last + age / 10 > now { return false }
            state.lastPurge = now
            return true
        }
        guard isDue, let count = try? await store.purge(olderThan: age), count > 0 else { return }
        // Some thousands at a time: outcomes and leases do not wait for millions.
        state.withLock { $0.lastPurge = nil }
        lookForWork()
    }

    /// Looks for work after a time, in place of an earlier such wish.
    private func wake(after delay: Duration) {
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + delay) { [weak self] in self?.lookForWork() }
        let earlier = state.withLock { state in
            defer { state.workTimer = timer }
            return state.workTimer
        }
        earlier?.cancel()
    }

    /// Renews the leases three times in their duration, while there is something under way.
    func setHeartbeat() {
        let clock = manager.configuration.clock
        let timer = clock.wake(at: clock.now + max(.seconds(1), configuration.lease) / 3) { [weak self] in
            guard let self else { return }
            let isNeeded = state.withLock { state in
                state.needsHeartbeat = !state.inFlight.isEmpty
                if state.inFlight.isEmpty { state.heartbeat = nil }
                return state.needsHeartbeat
            }
            giveBackStuck()
            if isNeeded { wakeUp.yield() }
        }
        let earlier = state.withLock { state in
            defer { state.heartbeat = timer }
            return state.heartbeat
        }
        earlier?.cancel()
    }

    /// A job was cancelled, or is another's now.
    private func lose(_ claim: Claim) {
        let sending = state.withLock { state -> DurableQueueState.Sending? in
            guard state.inFlight[claim.id]?.claim == claim else { return nil }
            // There is room, and perhaps nothing left that a drain waits for.
            state.mayHaveWork = true
            return state.inFlight.removeValue(forKey: claim.id)?.sending
        }
        sending?.operation.cancel()
        for finisher in state.withLock({ $0.takeFinishers() }) { finisher.resume() }
    }
}
