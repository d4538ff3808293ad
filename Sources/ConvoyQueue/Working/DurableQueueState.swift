// The state of a running queue.
import Convoy
import Foundation

/// The state of a running queue, protected by the queue's lock.
struct DurableQueueState {
    /// A claimed job whose outcome is not known yet.
    struct InFlight {
        var claim: Claim
        var host = ""
        /// The running request of the job; nil before it is created, and while the handler runs.
        var sending: Sending?
        /// When the request was last seen started but not sent, for example while an interceptor waits for a token.
        var unsent: ContinuousClock.Instant?
    }

    /// The operation of a running request.
    struct Sending {
        var operation: AnyRequestOperation
        /// Waits until the operation and its `onFinish` callbacks have finished.
        var finish: @Sendable () async -> Void
    }

    /// What the loop does next: write outcomes, renew leases, claim jobs.
    struct Turn {
        var settlements: [Settlement] = []
        /// The number of jobs that may be claimed.
        var room = 0
        /// Whose jobs may be claimed.
        var claiming = Claiming.all
        /// The claims to renew; nil when no heartbeat is due.
        var renewing: [Claim]?
        /// The value of `resumeCount` when the turn began, which shows whether `resume` was called during the turn.
        fileprivate var resumeCount = 0
    }

    /// The hosts whose jobs a turn claims.
    ///
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

    /// What a running request shows about its host.
    struct Sight {
        enum Stage: Equatable {
            /// The request waits for a slot of the manager.
            case waiting
            /// The request is being sent, without an answer so far.
            case sent(since: ContinuousClock.Instant, isIdempotent: Bool)
            /// The head of the response has arrived.
            case answered
        }

        var claim: Claim
        var host: String
        var stage: Stage
    }

    enum Phase {
        /// The queue was not started, or has stopped. Next: starting.
        case idle
        /// The loop is being created.
        ///
        /// Next: working.
        case starting
        /// The loop runs. Next: finishing, stopping.
        case working
        /// The queue claims and starts no more jobs.
        ///
        /// Running jobs continue. Next: stopping.
        case finishing
        /// The queue claims no more jobs.
        ///
        /// Running jobs are cancelled. Next: idle.
        case stopping
    }

    var phase = Phase.idle
    var handlers: [String: DurableQueue.Handler] = [:]
    var otherwise: DurableQueue.Handler?
    var inFlight: [String: InFlight] = [:]
    var settlements: [Settlement] = []
    /// The outcomes to report when the store has accepted their settlements.
    var unreported: [Claim: (job: Job, attempt: JobAttempt?)] = [:]
    /// Whether a turn must write the settlements now, without waiting for more of them.
    private(set) var mustSettle = false
    /// Whether the loop pauses, because the store has failed.
    ///
    /// No turn follows until ``resume()`` is called, however many jobs end.
    private(set) var isPaused = false
    private var resumeCount = 0
    /// When the hosts that are not silent answered last.
    private(set) var answeredHosts: [String: ContinuousClock.Instant] = [:]
    /// The hosts that do not answer, until they answer again, or have no more jobs that are running or ready.
    ///
    /// The value is true if the first requests of a host that has never answered may still be cancelled for others.
    private(set) var silentHosts: [String: Bool] = [:]
    /// Whether jobs of other new hosts may wait in the store, because the last claim for new hosts found as many jobs as
    /// it asked for.
    var hasMoreHosts = false
    /// Whose jobs the next turn claims; nil for the first group.
    private var nextClaiming: Claiming?
    /// Whether the store may have claimable jobs.
    var mayHaveWork = true
    var needsHeartbeat = false
    /// The number of cancelled jobs in the store at the last notification.
    private var cancelledCount: Int?
    var workTimer: ClockTimer?
    var heartbeat: ClockTimer?
    /// The timer of the next search for silent hosts.
    var silenceTimer: ClockTimer?
    var loop: Task<Void, Never>?
    var listener: Task<Void, Never>?
    var drainers: [CheckedContinuation<Void, Never>] = []
    /// Callers of `stop` while the queue is already stopping.
    var stopWaiters: [CheckedContinuation<Void, Never>] = []
    /// Callers of `stop(finishingWithin:)` that wait until no job is running.
    var finishers: [CheckedContinuation<Void, Never>] = []
    var lastPurge: ContinuousClock.Instant?
    /// Whether the manager was shut down, so that nothing can be sent any more.
    var isManagerShutDown = false

    func handler(of kind: String) -> DurableQueue.Handler? { handlers[kind] ?? otherwise }

    /// Returns the next turn of the loop, and resets the flags that required it; nil during a pause, or without work.
    ///
    /// Every turn writes all settlements, including those that were held back for a common commit.
    mutating func takeTurn(limit: Int) -> Turn? {
        guard !isPaused else { return nil }
        let room = phase == .working && !isManagerShutDown ? max(0, limit - inFlight.count) : 0
        guard mustSettle || needsHeartbeat || (mayHaveWork && room > 0) else { return nil }
        var turn = Turn(settlements: settlements, resumeCount: resumeCount)
        // Jobs that depend on settled jobs may be ready.
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

    /// The number of claimed, unsettled jobs of each host.
    var hostCounts: [String: Int] { inFlight.values.reduce(into: [:]) { $0[$1.host, default: 0] += 1 } }

    // MARK: Hosts that do not answer

    /// The maximum number of hosts whose answers or silence the queue remembers.
    private static let maxHostCount = 1_000
    /// How long a request waits for an answer until its host is silent.
    ///
    /// A host that has answered before may be slow, so it gets more time.
    private static let (patience, patienceAfterAnswer) = (Duration.milliseconds(1_500), Duration.seconds(10))

    /// Limits a claim to what each host may have.
    ///
    /// - Parameters:
    ///   - most: the maximum number of claimed jobs of a host.
    ///   - slots: how many jobs the manager sends at once.
    func limit(_ request: inout ClaimRequest, to claiming: Claiming, most: Int, slots: Int) {
        let counts = hostCounts
        // There may be fewer claims than slots.
        let slots = min(slots, inFlight.count + request.limit)
        // Hosts that do not answer, or not yet, leave a quarter of the slots to the others, and at least one.
        let others = counts.reduce(0) { answeredHosts[$1.key] == nil ? $0 + $1.value : $0 }
        let spare = max(1, slots - max(1, slots / 4)) - others
        request.maxPerHost = claiming == .all ? most : claiming == .new ? 1 : 0
        switch claiming {
        case .all: request.rooms = counts.mapValues { max(0, most - $0) }
        case .answering, .rest:
            if claiming == .answering { request.limit = max(0, request.limit - max(0, spare)) }
            request.rooms = answeredHosts.reduce(into: [:]) { $0[$1.key] = max(0, most - (counts[$1.key] ?? 0)) }
        case .new:
            // One job more than there are slots shows whether new hosts have jobs.
            request.limit = min(request.limit, max(hasMoreHosts ? 0 : 1, spare))
            for hosts in [Array(counts.keys), Array(answeredHosts.keys), Array(silentHosts.keys)] {
                for host in hosts { request.rooms[host] = 0 }
            }
        case .silent:
            request.limit = min(request.limit, max(0, spare))
            request.rooms = silentHosts.reduce(into: [:]) { $0[$1.key] = max(0, most - (counts[$1.key] ?? 0)) }
        }
    }

    /// Called after a claim that was limited to some hosts, with the number of claimed jobs to send.
    ///
    /// Returns whether the next turn claims for the next group of hosts.
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

    /// Records that a host has answered.
    mutating func noteAnswer(of host: String, at now: ContinuousClock.Instant) {
        silentHosts[host] = nil
        if answeredHosts[host] == nil, answeredHosts.count >= Self.maxHostCount, let other = answeredHosts.first?.key {
            answeredHosts[other] = nil
        }
        answeredHosts[host] = now
    }

    /// Updates ``silentHosts``, and returns the claims whose requests must be cancelled, so that their jobs are released.
    ///
    /// These are the requests to newly silent hosts that still wait for a slot: other queues may have room for their
    /// jobs. If jobs of other hosts wait, the first requests to a host that has never answered are cancelled too, but only
    /// once for each host, and only if they are idempotent.
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
        // The jobs of other hosts may be claimed now.
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

    /// Restores a turn that failed, and pauses unless the state was resumed during the turn.
    mutating func putBack(_ turn: Turn) {
        // If `resume` was called during the turn, for example by a notification of the store, the next turn may
        // succeed.
        isPaused = turn.resumeCount == resumeCount
        settlements = turn.settlements + settlements
        mustSettle = !settlements.isEmpty
        if turn.room > 0 { mayHaveWork = true }
        if turn.renewing != nil { needsHeartbeat = true }
    }

    /// Removes the outcomes of settlements from ``unreported``, and returns those that the store has accepted.
    mutating func takeReports(
        of settlements: [Settlement], _ isSettled: [Bool]
    ) -> [(job: Job, verdict: JobVerdict, attempt: JobAttempt?)] {
        zip(settlements, isSettled).compactMap { settlement, isSettled in
            guard let outcome = unreported.removeValue(forKey: settlement.claim), isSettled else { return nil }
            return (outcome.job, settlement.verdict, outcome.attempt)
        }
    }

    /// Makes the next turn renew the leases if the number of cancelled jobs has changed, because a running job may be
    /// among them.
    ///
    /// Returns whether the number has changed. Other changes cause no renewal, because each renewal costs a commit.
    mutating func note(cancelledCount count: Int) -> Bool {
        guard count != cancelledCount else { return false }
        (cancelledCount, needsHeartbeat) = (count, true)
        return true
    }

    /// Ends the pause that follows an error of the store.
    mutating func resume() { (isPaused, resumeCount) = (false, resumeCount &+ 1) }

    /// Records the outcome of a job.
    ///
    /// Returns when to write the outcome. Outcomes are collected, because one commit of many costs as much as a commit
    /// of one.
    mutating func end(_ settlement: Settlement, limit: Int) -> Telling {
        guard inFlight[settlement.claim.id]?.claim == settlement.claim else { return .never }
        inFlight[settlement.claim.id] = nil
        settlements.append(settlement)
        if isPaused {
            mustSettle = true
            return .withOthers
        }
        // The outcomes are written at once when their number reaches a quarter of the limit. They are also written at
        // once when they are as many as the running jobs, because the manager would soon have nothing to send.
        if settlements.count >= min(limit / 4, inFlight.count) { mustSettle = true }
        return mustSettle ? .now : settlements.count == 1 ? .soon : .withOthers
    }

    /// Makes the next turn write the settlements, unless an earlier turn has written the first of them.
    ///
    /// Returns whether the settlements must be written.
    mutating func settle(from first: Claim) -> Bool {
        if settlements.first?.claim == first { mustSettle = true }
        return mustSettle
    }

    /// When the outcome of a job is written to the store.
    enum Telling {
        /// Never, because the claim of the job was lost before this outcome.
        case never
        /// At once, because many outcomes wait, or at least as many as jobs are running.
        case now
        /// After a few milliseconds, because no other outcome waits to be written.
        case soon
        /// Together with an earlier outcome that waits, or after the pause that follows an error of the store.
        case withOthers
    }
}
