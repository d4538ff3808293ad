import Foundation
import Testing

@testable import Convoy

@Suite struct HoldsTests {
    private let now = ContinuousClock.now

    @Test func theLastOneEndsTheHold() {
        var holds = Holds()
        #expect(holds.isEmpty && holds.last == nil)
        holds.set(.asked, until: now + .seconds(2))
        holds.set(.rate, until: now + .seconds(5))
        holds.set(.broken, until: now + .seconds(3))
        #expect(holds.last?.reason == .rate)
        // A new hold replaces an earlier hold for the same reason.
        holds.set(.rate, until: now + .seconds(1))
        #expect(holds.last?.reason == .broken && holds.end(of: .rate) == now + .seconds(1))
        holds.lift(now + .seconds(2))
        #expect(!holds.has(.asked) && !holds.has(.rate) && holds.has(.broken))
        holds.lift(now + .seconds(3))
        #expect(holds.isEmpty)
    }

    @Test func onlyTheEarliestTimerIsRequested() {
        var holds = Holds()
        holds.set(.asked, until: now + .seconds(2))
        #expect(holds.takeTimer() == now + .seconds(2))
        holds.set(.asked, until: now + .seconds(9))
        #expect(holds.takeTimer() == nil)
        holds.set(.rate, until: now + .seconds(1))
        #expect(holds.takeTimer() == now + .seconds(1))
        holds.lift(now + .seconds(1))
        // The timer for the first second has fired, so the remaining hold needs a new one.
        #expect(holds.takeTimer() == now + .seconds(9))
        #expect(holds.takeTimer() == nil)
    }
}
