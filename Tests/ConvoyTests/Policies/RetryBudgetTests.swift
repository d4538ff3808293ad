import Foundation
import Testing

@testable import Convoy

@Suite struct RetryBudgetTests {
    private static let start = ContinuousClock.now

    /// The state of a budget, as an object that an expectation can change.
    private final class Account {
        private var state: RetryBudgetState

        init(_ budget: RetryBudget) { state = RetryBudgetState(budget) }

        func noteRequest(now: ContinuousClock.Instant = start) { state.noteRequest(now: now) }
        func take(now: ContinuousClock.Instant = start) -> Bool { state.take(now: now) }

        /// Uses retries until none is left; returns their number.
        func drain(now: ContinuousClock.Instant = start) -> Int {
            var count = 0
            while count < 1_000, take(now: now) { count += 1 }
            return count
        }
    }

    @Test func theReserveIsAvailableAtTheStart() {
        let state = Account(RetryBudget())
        #expect(state.drain() == 10)
    }

    @Test func fiveRequestsEarnARetry() {
        let state = Account(RetryBudget(reserve: 0))
        #expect(!state.take())
        for _ in 0..<4 { state.noteRequest() }
        #expect(!state.take())
        state.noteRequest()
        #expect(state.drain() == 1)
    }

    @Test func savedRetriesAreLimited() {
        let state = Account(RetryBudget())
        for _ in 0..<100_000 { state.noteRequest() }
        #expect(state.drain() == 100)
        let small = Account(RetryBudget(reserve: 20, maxSaved: 5))
        for _ in 0..<100 { small.noteRequest() }
        #expect(small.drain() == 20)
    }

    @Test func theReserveGrowsByOneASecondUpToItsLimit() {
        let state = Account(RetryBudget())
        #expect(state.drain() == 10)
        #expect(state.drain(now: Self.start + .milliseconds(999)) == 0)
        #expect(state.drain(now: Self.start + .seconds(1)) == 1)
        #expect(state.drain(now: Self.start + .seconds(4)) == 3)
        #expect(state.drain(now: Self.start + .seconds(1_000)) == 10)
        #expect(state.drain(now: Self.start + .seconds(1_000_000_000_000)) == 10)
    }

    @Test func timeDoesNotAddToEarnedRetries() {
        let state = Account(RetryBudget())
        for _ in 0..<100 { state.noteRequest() }
        // The budget has 30 retries. The loop takes 15 of them.
        for _ in 0..<15 { #expect(state.take()) }
        #expect(state.drain(now: Self.start + .seconds(100)) == 15)
        // The balance is below the reserve now, but the same 100 seconds are not credited.
        #expect(state.drain(now: Self.start + .seconds(100)) == 0)
    }

    @Test func manyShortMomentsAreAsLongAsTheyAre() {
        let state = Account(RetryBudget())
        _ = state.drain()
        var taken = 0
        // Three seconds pass in steps that are shorter than a millisecond.
        for step in 1...30_000 where state.take(now: Self.start + .microseconds(step * 100)) { taken += 1 }
        #expect(taken == 3)
    }

    @Test func aClockThatGoesBackGivesNothing() {
        let state = Account(RetryBudget())
        #expect(state.drain(now: Self.start + .seconds(100)) == 10)
        #expect(state.drain() == 0)
        #expect(state.drain(now: Self.start + .seconds(100)) == 0)
        #expect(state.drain(now: Self.start + .seconds(101)) == 1)
    }

    @Test func aClockThatGoesBackWhileTheReserveIsFullGivesNothing() {
        let state = Account(RetryBudget())
        state.noteRequest(now: Self.start + .seconds(100))
        state.noteRequest(now: Self.start)
        #expect(state.drain() == 10)
        #expect(state.drain(now: Self.start + .seconds(100)) == 0)
    }

    @Test(arguments: LongRuns.some(2, of: [1, 2, 3, 4, 5] as [UInt64]), [0.0, 0.1, 0.2, 1])
    func retriesOfAStormAreAFractionOfTheRequests(seed: UInt64, ratio: Double) {
        var generator = SeededGenerator(seed: seed)
        let budget = RetryBudget(ratio: ratio)
        let state = Account(budget)
        var now = Self.start
        var (requests, retries) = (0, 0)
        for _ in 0..<20_000 {
            now += .microseconds(Int.random(in: 0...20_000, using: &generator))
            requests += 1
            state.noteRequest(now: now)
            // Every request fails and tries to take three retries.
            for _ in 0..<3 where state.take(now: now) { retries += 1 }
            let most = Double(budget.reserve) + ratio * Double(requests) + (now - Self.start) / .seconds(1)
            #expect(Double(retries) <= most + 1e-3)
        }
        // Retries that were earned are permitted.
        #expect(Double(retries) >= ratio * Double(requests) - 1)
    }

    @Test func withoutALimitEveryRetryIsIn() {
        let state = Account(.unlimited)
        for _ in 0..<1_000 { #expect(state.take()) }
        #expect(RetryBudget.unlimited != RetryBudget())
        #expect(!RetryBudget(ratio: .infinity).isUnlimited)
    }

    @Test(arguments: [Double.nan, -1, 0, .infinity, -.infinity, 1e-300, 1e300])
    func noSettingOverflows(number: Double) {
        for whole in [Int.min, -1, 0, 1, Int.max] {
            let budget = RetryBudget(ratio: number, reserve: whole, reservePerSecond: number, maxSaved: whole)
            let state = Account(budget)
            let moments: [Duration] = [
                .zero, .seconds(1), .seconds(-1), .seconds(Int64.max / 4), .seconds(Int64.max / 2),
            ]
            for moment in moments {
                for _ in 0..<3 { state.noteRequest(now: Self.start + moment) }
                let taken = state.take(now: Self.start + moment)
                if whole <= 0 { #expect(!taken) }
            }
        }
    }
}
