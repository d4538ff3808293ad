import Convoy
import Foundation
import Testing

@testable import ConvoyCache

/// Tests that stored responses wait to be written in one transaction, and what ends the wait.
@Suite(.timeLimit(.minutes(5)))
struct GatheringTests {
    private let directory: TemporaryDirectory
    /// A store whose responses wait without a time limit.
    private let store: DiskStore

    init() throws {
        directory = try TemporaryDirectory()
        store = directory.makeStore(gatherTime: .never)
        // The first change makes the index.
        store.removeAll()
        #expect(store.counts.entryCount == 0)
    }

    /// The number of entries that a new store finds in the same directory.
    private func foreignCount() -> Int { directory.makeStore().counts.entryCount }

    /// Waits for the current work of the queue, and for the drain that this work enqueues.
    private func awaitQueue() {
        store.queue.sync {}
        store.queue.sync {}
    }

    @Test func responsesAreWrittenInOneTransaction() throws {
        let before = try #require(store.indexVersion)
        for number in 0..<100 { store.put("\(number)") }
        awaitQueue()
        #expect(store.indexVersion == before)
        #expect(store.counts.entryCount == 100)
        #expect(try #require(store.indexVersion).follows(before))
        #expect(store.indexVersion != before)
    }

    @Test func lookupFindsAResponseThatWaits() throws {
        for key in ["a", "b"] { store.put(key, Data(count: 100)) }
        #expect(store.entriesInMemory(for: "a") == nil)
        #expect(store.entries(for: "a").count == 1)
        #expect(foreignCount() == 2)
    }

    @Test func removalIsWrittenAtOnceAndAfterEarlierResponses() throws {
        store.put("a")
        store.removeAll(key: "a")
        awaitQueue()
        #expect(store.state.withLock { $0.changes.isEmpty })
        #expect(store.entries(for: "a").isEmpty)
        #expect(foreignCount() == 0)
    }

    /// The waiting response `c` evicts `b`, because `a` was used after `c` was queued.
    @Test func evictionKnowsTheUsesThatWaitForTheSameTransaction() throws {
        for key in ["a", "b"] { store.put(key, Data(count: 100)) }
        let full = directory.makeStore(capacity: store.counts.storedBytes, gatherTime: .never)
        let oldest = try #require(full.entries(for: "a").first)
        full.state.withLock { $0.firstUse = .now - DiskStore.mostUseAge }
        full.put("c", Data(count: 100))
        full.use(oldest.id)
        #expect(full.state.withLock { $0.isRecordingUses })
        #expect(full.counts.entryCount == 2)
        #expect(full.entries(for: "a").count == 1 && full.entries(for: "b").isEmpty)
        #expect(!full.state.withLock { $0.isRecordingUses })
    }

    @Test func closedStoreWritesWhatWaits() throws {
        store.put("a")
        store.close()
        awaitQueue()
        #expect(foreignCount() == 1)
    }

    @Test func twoResponsesOfOneKeyInOneTransactionLeaveTheLater() throws {
        store.put("a", Data(count: 100))
        store.put("a", Data(count: 200))
        #expect(store.entries(for: "a").map(\.head.bodyBytes) == [200])
        #expect(foreignCount() == 1)
    }
}
