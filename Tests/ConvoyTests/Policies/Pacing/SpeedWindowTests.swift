import Foundation
import Testing

@testable import Convoy

@Suite struct SpeedWindowTests {
    private let start = ContinuousClock.now
    private static let minimum = MinimumSpeed(bytesPerSecond: 100, duration: .seconds(10))

    private func running() -> SpeedWindow {
        var window = SpeedWindow(Self.minimum)
        window.begin()
        window.note(isRunning: true, change: 0, now: start)
        return window
    }

    @Test func tooFewBytesAreReportedWhenTheTimeHasPassed() {
        var window = running()
        window.add(999)
        #expect(window.due == start + .seconds(10))
        #expect(window.look(now: start + .seconds(9)) == .goesOn)
        #expect(window.due == start + .seconds(10))
        #expect(window.look(now: start + .seconds(10)) == .isTooSlow(bytes: 999, time: .seconds(10)))
    }

    @Test func enoughBeginsTheNextStretch() {
        var window = running()
        window.add(1_000)
        #expect(window.look(now: start + .seconds(10)) == .goesOn)
        #expect(window.due == start + .seconds(20))
        #expect(window.look(now: start + .seconds(20)) == .isTooSlow(bytes: 0, time: .seconds(10)))
    }

    @Test func heldBackDoesNotCount() {
        var window = running()
        window.note(isRunning: false, change: 1, now: start + .seconds(4))
        #expect(window.due == nil)
        #expect(window.look(now: start + .seconds(100)) == .goesOn)
        window.note(isRunning: false, change: 2, now: start + .seconds(200))
        window.note(isRunning: true, change: 3, now: start + .seconds(300))
        window.note(isRunning: true, change: 4, now: start + .seconds(302))
        #expect(window.due == start + .seconds(306))
        #expect(window.look(now: start + .seconds(306)) == .isTooSlow(bytes: 0, time: .seconds(10)))
    }

    @Test func ofTwoChangesTheLaterCounts() {
        var window = running()
        window.note(isRunning: true, change: 2, now: start + .seconds(1))
        window.note(isRunning: false, change: 1, now: start + .seconds(2))
        #expect(window.due == start + .seconds(10))
    }

    @Test func nothingOverflows() {
        var window = SpeedWindow(MinimumSpeed(bytesPerSecond: .max, duration: .seconds(Int64.max)))
        window.note(isRunning: true, change: 0, now: start)
        window.add(.max)
        window.add(.max)
        #expect(window.look(now: start + .seconds(5)) == .goesOn)
        #expect(window.due == start + .seconds(1_000_000_000))
    }
}
