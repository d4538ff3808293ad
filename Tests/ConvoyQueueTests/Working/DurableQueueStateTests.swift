import Foundation
import Testing

@testable import ConvoyQueue

/// Tests the state of a running queue as a value.
@Suite struct DurableQueueStateTests {
    /// Eight jobs in flight.
    private func state(_ phase: DurableQueueState.Phase = .working) -> DurableQueueState {
        var state = DurableQueueState()
        for id in 1...8 { state.inFlight["\(id)"] = DurableQueueState.InFlight(claim: Claim(id: "\(id)", token: 1)) }
        state.phase = phase
        return state
    }

    private func done(_ id: Int, token: Int64 = 1) -> Settlement {
        Settlement(Claim(id: "\(id)", token: token), .done)
    }

    /// The number of settlements and the room of the next turn; nil when there is no turn.
    private func next(_ state: inout DurableQueueState) -> [Int]? {
        state.takeTurn(limit: 256).map { [$0.settlements.count, $0.room] }
    }

    @Test func fewEndsWaitForTheirMoment() {
        var state = state()
        state.mayHaveWork = false
        #expect(state.end(done(1), limit: 256) == false)
        let early = (next(&state), state.settle(from: done(2).claim), next(&state))
        #expect(early.0 == nil && !early.1 && early.2 == nil, "this is the moment of others")
        let (isDue, turn) = (state.settle(from: done(1).claim), next(&state))
        #expect(isDue && turn == [1, 249], "dependents may be ready")
        #expect(state.end(done(2), limit: 256) == false)
        let late = (state.settle(from: done(1).claim), next(&state))
        #expect(!late.0 && late.1 == nil, "it was written before")
        #expect(state.end(done(9), limit: 256) == nil && state.end(done(3, token: 2), limit: 256) == nil, "lost claims")
        #expect(state.settlements.count == 1 && state.inFlight.count == 6)
    }

    @Test func whatCouldNotBeWrittenIsWrittenInTheNextStep() {
        var state = state(.finishing)
        _ = state.end(done(1), limit: 256)
        state.needsHeartbeat = true
        state.putBack(state.takeTurn(limit: 256) ?? DurableQueueState.Turn())
        state.needsHeartbeat = false
        // The other jobs in flight do not end, so no later event would write this settlement.
        _ = state.end(done(2), limit: 256)
        state.resume()
        let (again, last) = (next(&state), next(&state))
        #expect(again?.first == 2 && last == nil)
    }

    /// If an ended job woke the queue during a pause, the queue would repeat the failed exchange at once.
    @Test func endsDuringAPauseWakeNothing() {
        var state = state()
        state.putBack(DurableQueueState.Turn())
        #expect((1...8).map { state.end(done($0), limit: 256) } == Array(repeating: nil, count: 8))
        #expect(next(&state) == nil)
        state.resume()
        #expect(next(&state) == [8, 256])
    }

    /// The store may be available again, so the pause after the failed exchange must not delay the next turn.
    @Test func aNotificationDuringAFailingExchangeLeadsToAnotherTurn() {
        var state = state()
        _ = state.end(done(1), limit: 256)
        let turn = state.takeTurn(limit: 256)
        state.resume()
        state.putBack(turn ?? DurableQueueState.Turn())
        #expect(next(&state)?.first == 1)
    }
}
