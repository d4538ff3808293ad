import ConvoyQueue
import Testing

/// Tests every event in every state.
@Suite struct JobLifeTests {
    private static let held = JobHolds(dependencies: 1)
    private static let result = JobResult(statusCode: 200)
    private static let token: Int64 = 3

    /// The life of a job in this state.
    private static func life(_ state: JobState, hasResult: Bool = false) -> JobLife {
        JobLife(
            state: state, holds: state == .blocked ? held : JobHolds(),
            lease: state == .claimed ? JobLease(owner: "a", token: token) : nil, claimCount: token,
            hasResult: hasResult || state == .answered)
    }

    static let events: [JobLife.Event] = [
        .claimed(by: "b"), .settled(token: token, .done), .settled(token: token, .answered(result)),
        .settled(token: token, .retry(after: .zero)), .settled(token: token, .dead("no")),
        .settled(token: token, .release), .settled(token: token - 1, .done), .leaseEnded, .held(held),
        .held(JobHolds()),
        .expired, .cancelled, .acknowledged, .retried(JobHolds()), .retried(held), .expiredWithHandler,
    ]

    /// The next states, by the index of the event above; other events have no effect.
    static let table: [(JobState, [Int: JobState])] = [
        (.waiting, [0: .claimed, 8: .blocked, 10: .dead, 11: .cancelled, 15: .answered]),
        (.blocked, [9: .waiting, 10: .dead, 11: .cancelled, 15: .answered]),
        (.claimed, [1: .done, 2: .answered, 3: .waiting, 4: .dead, 5: .waiting, 7: .waiting, 11: .cancelled]),
        (.answered, [0: .claimed, 11: .cancelled, 12: .done]), (.done, [:]),
        (.dead, [11: .cancelled, 13: .waiting, 14: .blocked]), (.cancelled, [:]),
    ]

    @Test(arguments: table)
    func everyStateWithEveryEvent(state: JobState, ends: [Int: JobState]) {
        for (index, event) in Self.events.enumerated() {
            var life = Self.life(state)
            let hadEffect = life.handle(event)
            #expect(hadEffect == (ends[index] != nil), "\(state) with \(event)")
            #expect(life.state == ends[index] ?? state, "\(state) with \(event)")
            if !hadEffect { #expect(life == Self.life(state), "\(state) with \(event)") }
            expectWhole(life)
        }
    }

    @Test func everyStateIsInTheTable() { #expect(Self.table.map(\.0) == JobState.allCases) }

    /// The life after an event; nil when the event has no effect.
    private func after(_ life: JobLife, _ event: JobLife.Event) -> JobLife? {
        var life = life
        return life.handle(event) ? life : nil
    }

    @Test func aJobWithAResultIsNotSentAgain() {
        let claimed = Self.life(.claimed, hasResult: true)
        for event in [JobLife.Event.leaseEnded, .settled(token: Self.token, .release)] {
            let life = after(claimed, event)
            #expect(life?.state == .answered && life?.hasResult == true)
        }
        let life = after(claimed, .settled(token: Self.token, .retry(after: .zero)))
        #expect(life?.state == .waiting && life?.hasResult == false)
    }

    @Test func theDelayAfterALapseDoubles() {
        var life = JobLife()
        let delays = (1...9).map { _ in
            let hadEffect = life.handle(.claimed(by: "a")) && life.handle(.leaseEnded)
            #expect(hadEffect)
            return life.lapseDelay
        }
        #expect(delays == [0, 1, 2, 4, 8, 16, 32, 64, 64].map { .seconds($0) })
    }

    /// Checks the invariants of every state.
    private func expectWhole(_ life: JobLife) {
        #expect((life.lease != nil) == (life.state == .claimed), "\(life)")
        #expect(life.holds.isEmpty == (life.state != .blocked), "\(life)")
        #expect(!life.hasResult || life.state == .answered || life.state == .claimed, "\(life)")
        #expect(life.state != .answered || life.hasResult, "\(life)")
    }
}
