import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests that a host that hangs does not delay other hosts.
@Suite struct QueueHostsTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    @Test func aHostThatHangsStopsNoOther() async throws {
        let gate = Gate()
        let (dead, healthy) = (try KeyedServer { _ in .status(200).stalling(until: gate) }, try KeyedServer())
        let queue = DurableQueue(
            store: try SQLiteStore(at: place.file), manager: RequestManager(configuration: .init(clock: place.clock)))
        try await queue.add(contentsOf: (1...600).map { try dead.job("dead-\($0)") })
        queue.start(otherwise: takesAll)
        try await gate.reached(count: 6, within: .seconds(60))
        try await queue.add(healthy.job("healthy"))
        try await healthy.server.requestsReceived(count: 1, within: .seconds(60))
        try await look { try await queue.store.state("healthy") == .done }
        #expect(try await queue.status()[.claimed] == queue.maxPerHost)
        let host = JobRequest(url: dead.server.url("/")).host
        let why = try await queue.why("dead-600")
        #expect(why == "it waits for the host \(host), for which this queue runs \(queue.maxPerHost) jobs")
        gate.open()
        await queue.drain()
        #expect(try await queue.status()[.done] == 601)
        #expect(dead.all.requestCount == 600)
    }

    /// Each of many hosts accepts its requests and never answers, and its jobs are older than those of the healthy host.
    ///
    /// The test takes less real time than the timeout of a request.
    @Test(arguments: [(30, 8), (100, 16), (3, 4)])
    func moreHangingHostsThanSlotsStopNoHealthyHost(hostCount: Int, slots: Int) async throws {
        let gate = Gate()
        let (dead, healthy) = (try KeyedServer { _ in .status(200).stalling(until: gate) }, try KeyedServer())
        let manager = RequestManager(
            configuration: .init(maxConcurrentOperationCount: slots, clock: place.clock))
        let queue = try place.makeQueue(manager) { $0.maxClaimedJobCount = 4 * slots }
        var jobs: [Job] = []
        for number in 0..<hostCount * 10 {
            let url = "http://h\(number % hostCount).localhost:\(dead.server.port)/\(number)"
            jobs.append(Job("test", JobRequest(url: try #require(URL(string: url))), id: "dead-\(number)"))
        }
        jobs += (1...50).map { Job("test", JobRequest(url: healthy.server.url("/\($0)")), id: "healthy-\($0)") }
        try await queue.add(contentsOf: jobs)
        queue.start(otherwise: takesAll)
        // The queue gets some real time after each second of its clock.
        let bound = ContinuousClock.now + .seconds(50)
        var seconds = 0
        while healthy.all.requestCount < 50, .now < bound {
            place.clock.advance(by: .seconds(1))
            seconds += 1
            _ = await turns(within: .milliseconds(50)) { healthy.all.requestCount == 50 }
        }
        try await look(within: .seconds(10)) { try await queue.status()[.done] == 50 }
        #expect(healthy.all.requestCount == 50, "after \(seconds) seconds")
        await queue.stop()
        gate.open()
    }

    @Test func jobsThatWaitForAHangingHostAreReleased() async throws {
        let (gate, dead, queue) = try await place.hanging(100, sent: 6, RequestManager()) { $0.lease = .seconds(1) }
        // After one or two heartbeats only running jobs stay claimed.
        try await look { try await queue.status()[.claimed] <= 6 }
        gate.open()
        await queue.drain()
        #expect(try await queue.status()[.done] == 100)
        // On a busy machine, a lease of one second may expire. Then a running job is sent again with its key.
        #expect(dead.all.keys.count == 100 && dead.all.keys.values.allSatisfy { $0.count == 1 })
    }

    /// A host may have four times as many claims as concurrent requests, so that no request waits for an exchange.
    ///
    /// An eighth of all claims is always permitted, and three quarters are the maximum.
    @Test(arguments: [
        (6, 256, 32), (32, 256, 128), (100, 256, 192), (6, 8, 6), (6, 3, 2), (1, 1, 1), (1, 0, 1), (.max, 256, 192),
        (6, .max, .max / 8), (.max, .max, .max / 4 * 3 + 2),
    ])
    func aHostHasClaimsForAnExchange(sentAtOnce: Int, claimed: Int, expected: Int) throws {
        let manager = RequestManager(configuration: .init(maxConcurrentPerHost: sentAtOnce))
        let queue = try place.makeQueue(manager) { $0.maxClaimedJobCount = claimed }
        #expect(queue.maxPerHost == expected)
    }

    /// Requests to the hosts `name0`, `name1` and so on, sent at one moment.
    private func sights(
        _ name: String, _ count: Int, isIdempotent: Bool = true, since: ContinuousClock.Instant
    ) -> [DurableQueueState.Sight] {
        (0..<count).map { number in
            DurableQueueState.Sight(
                claim: Claim(id: "\(name)\(number)", token: 1), host: "\(name)\(number)",
                stage: .sent(since: since, isIdempotent: isIdempotent))
        }
    }

    private func state(of sights: [DurableQueueState.Sight]) -> DurableQueueState {
        var state = DurableQueueState()
        for sight in sights {
            state.inFlight[sight.claim.id] = DurableQueueState.InFlight(claim: sight.claim, host: sight.host)
        }
        return state
    }

    private func limited(
        _ state: DurableQueueState, _ claiming: DurableQueueState.Claiming, limit: Int = 32, slots: Int = 8
    ) -> ClaimRequest {
        state.limited(ClaimRequest(limit: limit, lease: .seconds(30)), to: claiming, most: 24, slots: slots)
    }

    @Test func aHostIsSilentUntilItAnswers() {
        let begin = ContinuousClock.now
        let slow = sights("slow", 1, since: begin)
        var state = state(of: slow)
        state.noteAnswer(of: "slow0", at: begin + .seconds(5))
        #expect(state.findSilent(slow, at: begin + .seconds(14)) == [] && state.silentHosts == [:])
        #expect(state.findSilent(slow, at: begin + .seconds(15)) == [] && state.silentHosts == ["slow0": false])
        let new = sights("new", 1, since: begin + .seconds(14))
        _ = state.findSilent(new, at: begin + .seconds(15))
        #expect(state.silentHosts.keys.sorted() == ["slow0"])
        _ = state.findSilent(new, at: begin + .seconds(16))
        #expect(state.silentHosts == ["slow0": false, "new0": true])
        // The head of a response is an answer, however long its body takes.
        var answered = slow + new
        for index in answered.indices { answered[index].stage = .answered }
        #expect(state.findSilent(answered, at: begin + .seconds(17)) == [] && state.silentHosts == [:])
        #expect(state.answeredHosts.count == 2)
    }

    /// Requests that are not idempotent, and those of hosts that have answered before, are never cancelled.
    @Test(arguments: [
        (true, true, false, true), (false, true, false, false), (true, false, false, false), (true, true, true, false),
    ])
    func onlyFirstRequestsAreCancelledForOtherHosts(
        isIdempotent: Bool, hasMoreHosts: Bool, hasAnswered: Bool, isCancelled: Bool
    ) {
        let begin = ContinuousClock.now
        let sent = sights("a", 2, isIdempotent: isIdempotent, since: begin)
        let waiting = DurableQueueState.Sight(claim: Claim(id: "w", token: 1), host: "a0", stage: .waiting)
        var state = state(of: sent + [waiting])
        state.hasMoreHosts = hasMoreHosts
        if hasAnswered { for sight in sent { state.noteAnswer(of: sight.host, at: begin) } }
        let cancelled = state.findSilent(sent + [waiting], at: begin + .seconds(20))
        #expect(Set(cancelled.map(\.id)) == (isCancelled ? ["a0", "a1", "w"] : ["w"]))
        #expect(state.findSilent(sent + [waiting], at: begin + .seconds(30)) == [], "once for each host")
    }

    @Test func silentHostsLeaveAShareToOthers() {
        let begin = ContinuousClock.now
        let silent = sights("silent", 3, since: begin)
        var state = state(of: silent)
        #expect(limited(state, .all).limit == 32 && limited(state, .all).room(of: "silent0") == 23)
        _ = state.findSilent(silent, at: begin + .seconds(2))
        state.noteAnswer(of: "good", at: begin)
        // Six of eight slots are for hosts without an answer, and three of them are in use.
        let answering = limited(state, .answering)
        #expect(answering.limit == 29 && answering.room(of: "good") == 24)
        #expect(["new", "silent0"].allSatisfy { answering.room(of: $0) == 0 })
        let new = limited(state, .new)
        #expect(new.limit == 3 && new.room(of: "new") == 1)
        #expect(["good", "silent0"].allSatisfy { new.room(of: $0) == 0 })
        let rest = limited(state, .silent)
        #expect(rest.limit == 3 && rest.room(of: "silent0") == 3 && rest.room(of: "new") == 0)
        #expect(limited(state, .new, slots: 4).limit == 1, "one job shows whether new hosts have jobs")
        state.hasMoreHosts = true
        #expect(limited(state, .new, slots: 4).limit == 0 && limited(state, .silent, slots: 4).limit == 0)
        #expect(limited(state, .new, slots: 1).limit == 0 && limited(state, .new, slots: .max).limit == 24)
    }
}
