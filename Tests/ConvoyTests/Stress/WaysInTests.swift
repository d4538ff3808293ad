import Convoy
import ConvoyTesting
import Foundation
import Testing

/// Adds operations to a manager in every way at the same time, with a seed, barriers, cancelling and foreign
/// operations.
///
/// Nothing may be lost, stuck or reported twice, and no limit may be exceeded. The seeds are those of
/// `TorturePlan.seeds`.
@Suite(.serialized, .timeLimit(.minutes(60))) struct WaysInTests {
    @Test func everyWayInAtOnce() async {
        for seed in TorturePlan.seeds(25) {
            let world = WaysInWorld(seed: seed, excess: 0)
            guard await torment(world) else { return }
            #expect(world.stub.faults == [], "\(world.label)")
        }
    }

    /// Checks the test itself.
    ///
    /// The test must notice one slot too many, one request too many for a host, and names that exclude nothing. The
    /// interleaving of the threads decides which seed shows which fault.
    @Test func theChecksFindOneSlotTooMany() async {
        var faults: Set<String> = []
        for seed in 0..<200 where faults.count < 3 {
            let world = WaysInWorld(seed: seed, excess: 1)
            guard await torment(world) else { return }
            faults.formUnion(world.stub.faults.map { $0.prefix { $0 != ":" }.description })
        }
        #expect(faults == ["slots", "host", "name"])
    }

    /// Runs a world; returns false if it is stuck.
    private func torment(_ world: WaysInWorld) async -> Bool {
        let isOver = await runThreads(world.threads, on: world.manager, world.label, queues: world.queues) {
            world.torment($0)
        } letGo: {
            world.letGo()
        } end: {
            await world.manager.drain()
            await offPool { for queue in world.queues { queue.waitUntilAllOperationsAreFinished() } }
            _ = await turns(within: .seconds(20)) { world.hasEnded }
        }
        guard isOver else { return false }
        world.expectAllTold()
        world.forget()
        await world.check.expectAllGone(world.label)
        return true
    }
}
