import Foundation
import Testing

@testable import Convoy

/// Random orders of what can happen to a scheduler and its operations.
///
/// `CONVOY_LONG=1` runs a million worlds; else the first thousands.
@Suite struct SchedulerExplorationTests {
    private static let isLong = ProcessInfo.processInfo.environment["CONVOY_LONG"] != nil

    @Test func everyWorldEndsWell() async {
        for seed in 0..<UInt64(Self.isLong ? 1_000_000 : 2_500) {
            // Other tests wait for a thread.
            await Task.yield()
            guard let finding = SchedulerWorld(seed: seed).run() else { continue }
            Issue.record("world \(seed): \(finding)")
            return
        }
    }

    @Test(arguments: SchedulerWorld.Defect.allCases)
    func aMistakeIsFound(defect: SchedulerWorld.Defect) async {
        for seed in 0..<UInt64(1_000) {
            await Task.yield()
            if SchedulerWorld(seed: seed, defect: defect).run() != nil { return }
        }
        Issue.record("not found")
    }

    @Test func thereAreMistakesEnough() { #expect(SchedulerWorld.Defect.allCases.count >= 20) }
}
