import Convoy
import Testing

@testable import ConvoyCommand

@Suite struct InterruptionTests {
    private let left = Locked<[ConvoyCommand.ExitStatus]>([])
    private let stopCount = Locked(0)

    private func makeInterruption() -> Interruption {
        Interruption { [left] status in left.withLock { $0.append(status) } }
    }

    @Test func theFirstSignalStopsAndTheSecondLeavesAtOnce() {
        let interruption = makeInterruption()
        interruption.onStop { [stopCount] in stopCount.withLock { $0 += 1 } }
        let now = ContinuousClock.now
        interruption.received(.interrupted, at: now)
        #expect(stopCount.withLock { $0 } == 1)
        #expect(left.withLock { $0 } == [])
        // `timeout` sends a signal twice, which counts as one.
        interruption.received(.interrupted, at: now + .milliseconds(99))
        #expect(left.withLock { $0 } == [])
        interruption.received(.terminated, at: now + .milliseconds(100))
        #expect(stopCount.withLock { $0 } == 1)
        #expect(left.withLock { $0 } == [.terminated])
        #expect(interruption.reason == .interrupted)
    }

    @Test func aSignalBeforeTheRunStopsTheRunAtItsStart() {
        let interruption = makeInterruption()
        interruption.received(.hangUp)
        interruption.onStop { [stopCount] in stopCount.withLock { $0 += 1 } }
        #expect(stopCount.withLock { $0 } == 1)
        #expect(interruption.reason == .hangUp)
    }
}
