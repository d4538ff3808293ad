import Foundation
import Testing

@testable import Convoy

@Suite struct OperationStateTests {
    private static func handler(_ place: CallbackPlace) -> FinishHandler { FinishHandler(place: place) { _ in } }

    /// Rows of a place that is asked for, the place that is given, and how many are on the lane then.
    @Test func aHandlerThatTakesItsTurnNeedsTheLaneForOthersBeforeItAlone() {
        var state = OperationState(requestPlan: RequestPlan(Request<Data>.get("http://stub/")), isMonitored: false)
        let rows: [(place: CallbackPlace, isLane: Bool, isHere: Bool, count: Int)] = [
            (.inTurn, false, true, 0), (.here, false, true, 0), (.elsewhere(.queue(.main)), false, false, 0),
            (.lane, true, false, 1), (.inTurn, true, false, 2), (.here, false, true, 2), (.lane, true, false, 3),
        ]
        for row in rows {
            let handler = state.takeTurn(Self.handler(row.place))
            #expect(handler.place.isLane == row.isLane)
            #expect(handler.place.isHere == row.isHere)
            #expect(state.laneHandlers == row.count)
        }
        // They have returned.
        state.laneHandlers = 0
        #expect(state.takeTurn(Self.handler(.inTurn)).place.isHere)
    }
}
