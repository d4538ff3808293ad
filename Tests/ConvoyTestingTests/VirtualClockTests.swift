import Convoy
import ConvoyTesting
import Foundation
import TestSupport
import Testing

@Suite struct VirtualClockTests {
    private let clock = VirtualClock(date: Date(timeIntervalSince1970: 100))
    private let log = EventLog<String>()

    private func set(_ name: String, after duration: Duration) {
        _ = clock.wake(at: clock.now + duration) { [log, clock] in log.record("\(name) at \(clock.elapsed)") }
    }

    @Test func itStandsStillUntilItIsMoved() {
        let now = clock.now
        #expect(clock.elapsed == .zero)
        clock.advance(by: .seconds(3))
        #expect(now.duration(to: clock.now) == .seconds(3))
        #expect(clock.date == Date(timeIntervalSince1970: 103))
        clock.advance(by: .seconds(-1))
        #expect(clock.elapsed == .seconds(3))
    }

    @Test func alarmsRingInTheOrderOfTheirMomentsAndOfSetting() {
        set("b", after: .seconds(2))
        set("a", after: .seconds(1))
        set("c", after: .seconds(2))
        set("d", after: .seconds(9))
        clock.advance(by: .seconds(5))
        #expect(log.events == ["a at 1.0 seconds", "b at 2.0 seconds", "c at 2.0 seconds"])
        #expect(clock.elapsed == .seconds(5))
        #expect(clock.timerCount == 4)
        // A timer in the past fires with the next advance.
        set("late", after: .seconds(-5))
        #expect(log.count == 3)
        clock.advance(by: .zero)
        #expect(log.events.last == "late at 5.0 seconds")
    }

    @Test func aTimerSetByATimerFiresWhenItIsDue() {
        _ = clock.wake(at: clock.now + .seconds(1)) { set("inner", after: .seconds(1)) }
        clock.advance(by: .seconds(2))
        #expect(log.events == ["inner at 2.0 seconds"])
    }

    @Test func aCancelledTimerIsPassedOver() async throws {
        clock.wake(at: clock.now + .seconds(1)) { [log] in log.record("cancelled") }.cancel()
        set("a", after: .seconds(2))
        try await clock.advanceToNextTimer()
        #expect(log.events == ["a at 2.0 seconds"])
    }

    /// `advanceToNextTimer()` skips the deadline, because the timer of the earlier retry may not have been set.
    @Test func aDeadlineIsPassedOver() async throws {
        let stub = StubTransport(clock: clock)
        stub.route(.get, "/a", replies: .status(503), .status(200))
        let manager = RequestManager(
            configuration: .init(retries: .standard, transport: .custom(stub), clock: clock))
        let operation = manager.enqueue(Request<Data>.get("http://example.com/a").deadline(.milliseconds(1_900)))
        try await clock.timersSet(count: 1)
        try await clock.advanceToNextTimer()
        #expect(try await operation.response().statusCode == 200)
    }

    @Test func itWaitsForATimerThatIsSetLater() async throws {
        let task = Task { try await clock.advanceToNextTimer(dueWithin: .seconds(10)) }
        // The timer is outside of the ten seconds, like a deadline.
        set("deadline", after: .seconds(30))
        set("retry", after: .seconds(4))
        try await task.value
        #expect(log.events == ["retry at 4.0 seconds"])
    }

    @Test func waitsAreBounded() async {
        set("deadline", after: .seconds(30))
        let error = await #expect(throws: TestServerError.self) {
            try await clock.advanceToNextTimer(dueWithin: .seconds(1), within: .zero)
        }
        #expect(error?.description == "Waited 0.0 seconds for a timer to be set; it did not happen.")
        await #expect(throws: TestServerError.self) { try await clock.timersSet(count: 2, within: .zero) }
        try? await clock.timersSet(count: 1, within: .zero)
        #expect(log.events.isEmpty)
    }

    @Test func aBoundMayBeAsLongAsADurationIs() async {
        let clock = VirtualClock()
        let waiting = Task { try await clock.advanceToNextTimer(within: .seconds(Int64.max)) }
        _ = clock.wake(at: clock.now) {}
        _ = await waiting.result
        let cancelled = Task { try await clock.advanceToNextTimer(within: .seconds(Int64.max)) }
        await Task.yield()
        cancelled.cancel()
        await #expect(throws: TestServerError.self) { try await cancelled.value }
    }
}
