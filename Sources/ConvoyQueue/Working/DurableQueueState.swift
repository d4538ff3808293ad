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
        /// The claims to renew; nil when no heartbeat is due.
        var renewing: [Claim]?
        /// The value of `resumeCount` when the turn began, which shows whether `resume` was called during the turn.
        fileprivate var resumeCount = 0
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
    /// The hosts with jobs that ended since the last heartbeat; released jobs do not count.
    var movingHosts: Set<String> = []
    /// The stuck hosts, whose claimed jobs do not end.
    ///
    /// A host becomes stuck if two successive heartbeats find more claimed jobs of it than the manager sends at once,
    /// and none of its jobs has ended in between. The host stays stuck until one of its jobs ends.
    var stuckHosts: Set<String> = []
    /// The hosts that had more claimed jobs at the last heartbeat than the manager sends at once.
    private var seenHosts: Set<String> = []
    /// Whether the store may have claimable jobs.
    var mayHaveWork = true
    var needsHeartbeat = false
    /// The number of cancelled jobs in the store at the last notification.
    private var cancelledCount: Int?
    var workTimer: ClockTimer?
    var heartbeat: ClockTimer?
    /// Whether the timer of the next heartbeat has not fired yet.
    var awaitsHeartbeat = false
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
            mayHaveWork = false
        }
        return turn
    }

    /// The number of claimed, unsettled jobs of each host.
    var hostCounts: [String: Int] { inFlight.values.reduce(into: [:]) { $0[$1.host, default: 0] += 1 } }

    /// How many more jobs may be claimed for each host that has claimed jobs.
    ///
    /// - Parameters:
    ///   - most: the maximum for a host.
    ///   - least: the maximum for a stuck host: as many as the manager sends at once.
    func rooms(most: Int, least: Int) -> [String: Int] {
        var rooms = hostCounts
        for (host, count) in rooms { rooms[host] = max(0, (stuckHosts.contains(host) ? least : most) - count) }
        return rooms
    }

    /// Updates ``stuckHosts``, and returns the running requests to these hosts.
    ///
    /// Called once for each heartbeat.
    mutating func findStuck(least: Int) -> [Sending] {
        let crowded = hostCounts.filter { $0.value > least }.keys
        stuckHosts.formUnion(crowded.filter { !movingHosts.contains($0) && seenHosts.contains($0) })
        seenHosts = Set(crowded)
        movingHosts = []
        return inFlight.values.filter { stuckHosts.contains($0.host) }.compactMap(\.sending)
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
        guard let host = inFlight[settlement.claim.id]?.host,
            inFlight[settlement.claim.id]?.claim == settlement.claim
        else { return .never }
        if settlement.verdict != .release {
            movingHosts.insert(host)
            stuckHosts.remove(host)
        }
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
