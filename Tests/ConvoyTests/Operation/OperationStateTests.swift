import Foundation
import Testing

@testable import Convoy

@Suite struct OperationStateTests {
    private static func handler(_ place: CallbackPlace) -> FinishHandler { FinishHandler(place: place) { _ in } }

    /// Each row has the requested place, the place that is used, and the number of handlers on the serial executor.
    @Test func anInTurnHandlerNeedsTheExecutorOnlyAfterOthers() {
        var state = OperationState(requestPlan: TypedRequestPlan(Request<Data>.get("http://stub/")), isMonitored: false)
        let rows: [(place: CallbackPlace, isExecutor: Bool, isHere: Bool, count: Int)] = [
            (.inTurn, false, true, 0), (.here, false, true, 0), (.elsewhere { work, _ in work() }, false, false, 0),
            (.executor, true, false, 1), (.inTurn, true, false, 2), (.here, false, true, 2),
            (.executor, true, false, 3),
        ]
        for row in rows {
            state.handlers = [Self.handler(row.place)]
            let handlers = state.takeHandlers()
            #expect(handlers.map(\.place.isExecutor) == [row.isExecutor])
            #expect(handlers.map(\.place.isHere) == [row.isHere])
            #expect(state.executorHandlers == row.count)
        }
        // The handlers on the serial executor have returned.
        state.executorHandlers = 0
        state.handlers = [Self.handler(.inTurn)]
        let handlers = state.takeHandlers()
        #expect(handlers.map(\.place.isHere) == [true])
    }
}
