import Foundation
import Testing

@testable import ConvoyQueue

/// Tests the state of a running queue as a value.
@Suite struct DurableQueueStateTests {
    private func state(of ids: [String]) -> DurableQueueState {
        var state = DurableQueueState()
        for id in ids { state.inFlight[id] = DurableQueueState.InFlight(claim: Claim(id: id, token: 1)) }
        return state
    }

    private func done(_ id: String, token: Int64 = 1) -> Settlement { Settlement(Claim(id: id, token: token), .done) }

    @Test func theStoreIsToldOfManyEndsAtOnce() {
        var state = state(of: ["a", "b", "c"])
        #expect(state.end(done("a"), limit: 256) == .soon)
        #expect(state.end(done("b"), limit: 256) == .withOthers)
        #expect(state.end(done("c"), limit: 256) == .now, "nothing else is under way")
        #expect(state.settlements.count == 3 && state.inFlight.isEmpty)
    }

    @Test func aQuarterOfWhatMayBeClaimedIsMany() {
        var state = state(of: (1...12).map(String.init))
        let tellings = (1...10).map { state.end(done("\($0)"), limit: 16) }
        #expect(tellings == [.soon, .withOthers, .withOthers] + Array(repeating: .now, count: 7))
    }

    @Test func whatWasLostIsNotTold() {
        var state = state(of: ["a"])
        #expect(state.end(done("a", token: 2), limit: 256) == .never)
        #expect(state.end(done("b"), limit: 256) == .never)
        #expect(state.settlements.isEmpty && state.inFlight.count == 1)
    }
}
