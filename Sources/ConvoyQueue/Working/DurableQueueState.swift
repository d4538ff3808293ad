// What a queue has under way.
import Convoy
import Foundation

/// The state of a queue that works: pure values, changed under its lock.
struct DurableQueueState {
    /// A job that was claimed and is not settled.
    struct InFlight {
        var claim: Claim
        /// Where its request goes.
        var host = ""
        /// Nil once it has ended and its handler runs, and before it is made.
        var sending: Sending?
    }

    /// A request that is being sent.
    struct Sending {
        var operation: AnyRequestOperation
        /// Waits for the end of the operation and of its handlers.
        var finish: @Sendable () async -> Void
    }

    /// What the loop does next.
    struct Turn {
        var settlements: [Settlement] = []
        /// How many jobs may be claimed.
        var room = 0
        /// What a heartbeat renews; nil when none is due.
        var renewing: [Claim]?
    }

    enum Phase {
        /// Not started. Next: starting.
        case idle
        /// The loop is made. Next: working.
        case starting
        /// The loop runs. Next: finishing, stopping.
        case working
        /// Nothing more is claimed or begun, and what is under way goes on. Next: stopping.
        case finishing
        /// Nothing more is claimed, and what is under way is broken off. Next: idle.
        case stopping
    }

    var phase = Phase.idle
    var handlers: [String: DurableQueue.Handler] = [:]
    var otherwise: DurableQueue.Handler?
    var inFlight: [String: InFlight] = [:]
    var settlements: [Settlement] = []
    /// The hosts of jobs that have ended since the last heartbeat.
    var movingHosts: Set<String> = []
    /// The hosts of which nothing ended from one heartbeat to the next, while some of their jobs waited for their turn.
    var stuckHosts: Set<String> = []
    /// The hosts of which more jobs were claimed at the last heartbeat than can be sent at once.
    private var seenHosts: Set<String> = []
    /// Whether the store may have jobs to be claimed.
    var mayHaveWork = true
    var needsHeartbeat = false
    var workTimer: ClockTimer?
    var heartbeat: ClockTimer?
    var loop: Task<Void, Never>?
    var listener: Task<Void, Never>?
    var drainers: [CheckedContinuation<Void, Never>] = []
    /// Later callers of `stop`.
    var stopWaiters: [CheckedContinuation<Void, Never>] = []
    /// Those that wait until nothing is under way.
    var finishers: [CheckedContinuation<Void, Never>] = []
    var lastPurge: ContinuousClock.Instant?
    /// Nothing can be sent any more.
    var isManagerShutDown = false

    func handler(of kind: String) -> DurableQueue.Handler? { handlers[kind] ?? otherwise }

    /// Takes what is to be done; nil when there is nothing.
    mutating func takeTurn(limit: Int) -> Turn? {
        var turn = Turn(settlements: settlements)
        if needsHeartbeat {
            turn.renewing = inFlight.values.map(\.claim)
            needsHeartbeat = false
        }
        let room = max(0, limit - inFlight.count)
        if phase == .working, !isManagerShutDown, mayHaveWork, room > 0 {
            turn.room = room
            mayHaveWork = false
        }
        guard !settlements.isEmpty || turn.room > 0 || turn.renewing != nil else { return nil }
        settlements = []
        return turn
    }

    /// How many jobs are under way of each host.
    var hostCounts: [String: Int] { inFlight.values.reduce(into: [:]) { $0[$1.host, default: 0] += 1 } }

    /// How many more may be claimed of the hosts that have some.
    ///
    /// - Parameters:
    ///   - most: of a host.
    ///   - least: of one that is stuck; as many as the manager sends at once.
    func rooms(most: Int, least: Int) -> [String: Int] {
        var rooms = hostCounts
        for (host, count) in rooms { rooms[host] = max(0, (stuckHosts.contains(host) ? least : most) - count) }
        return rooms
    }

    /// Finds the hosts that are stuck, and what may be given back of them; called once a heartbeat.
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

    /// Those that wait until nothing is under way, once that is so, or their time is over.
    mutating func takeFinishers(isOver: Bool = false) -> [CheckedContinuation<Void, Never>] {
        guard isOver || inFlight.isEmpty else { return [] }
        defer { finishers = [] }
        return finishers
    }

    /// Gives back what could not be done.
    mutating func putBack(_ turn: Turn) {
        settlements = turn.settlements + settlements
        if turn.room > 0 { mayHaveWork = true }
        if turn.renewing != nil { needsHeartbeat = true }
    }

    /// Notes the end of a job, and says when the store is to be told: with others, because a commit costs the same for one and
    /// for many.
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
        // What waits for it may go.
        mayHaveWork = true
        if inFlight.isEmpty || settlements.count >= limit / 4 { return .now }
        return settlements.count == 1 ? .soon : .withOthers
    }

    /// When the store is told of the end of a job.
    enum Telling {
        /// The job was lost meanwhile.
        case never
        /// Nothing else is under way, or many have ended.
        case now
        /// It is the first of some: in a moment.
        case soon
        /// In the same moment as the first.
        case withOthers
    }
}
