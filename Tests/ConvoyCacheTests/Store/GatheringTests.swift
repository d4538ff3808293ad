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
        store = DiskStore(
            directory: directory.file("cache"), capacity: 50_000_000, mostEntryBytes: 1_000_000, gatherTime: .never)
        // The first change makes the index.
        store.removeAll()
        #expect(store.counts.entries == 0)
    }

    private func put(_ key: String, _ count: Int = 100, in other: DiskStore? = nil) throws {
        let store = other ?? store
        let writer = try #require(store.makeWriter(expectedBytes: nil))
        #expect(writer.write(Data(repeating: 1, count: count)))
        var head = StoredHead(
            url: key, statusCode: 200, headerFields: [:], requestTime: 5, responseTime: 6,
            vary: VaryKey([], [:], store.digest), credentials: nil)
        (head.bodyBytes, head.totalBytes) = (Int64(count), Int64(count))
        #expect(writer.commit(key: key, head: head) { _ in true })
    }

    /// The number of entries that a new store finds in the same directory.
    private func foreignCount() -> Int {
        DiskStore(directory: directory.file("cache"), capacity: 50_000_000, mostEntryBytes: 1_000_000).counts.entries
    }

    /// Waits for the current work of the queue, and for the drain that this work enqueues.
    private func awaitQueue() {
        store.queue.sync {}
        store.queue.sync {}
    }

    @Test func responsesAreWrittenInOneTransaction() throws {
        let before = try #require(store.indexVersion)
        for number in 0..<100 { try put("\(number)") }
        awaitQueue()
        #expect(store.indexVersion == before)
        #expect(store.counts.entries == 100)
        #expect(try #require(store.indexVersion).follows(before))
        #expect(store.indexVersion != before)
    }

    @Test func lookupFindsAResponseThatWaits() throws {
        for key in ["a", "b"] { try put(key) }
        #expect(store.entriesInMemory(for: "a") == nil)
        #expect(store.entries(for: "a").count == 1)
        #expect(foreignCount() == 2)
    }

    @Test func removalIsWrittenAtOnceAndAfterEarlierResponses() throws {
        try put("a")
        store.removeAll(key: "a")
        awaitQueue()
        #expect(store.state.withLock { $0.changes.isEmpty })
        #expect(store.entries(for: "a").isEmpty)
        #expect(foreignCount() == 0)
    }

    /// The waiting response `c` evicts `b`, because `a` was used after `c` was queued.
    @Test func evictionKnowsTheUsesThatWaitForTheSameTransaction() throws {
        for key in ["a", "b"] { try put(key) }
        let full = DiskStore(
            directory: directory.file("cache"), capacity: store.counts.bytes, mostEntryBytes: 1_000_000,
            gatherTime: .never)
        let oldest = try #require(full.entries(for: "a").first)
        full.state.withLock { $0.firstUse = .now - DiskStore.mostUseAge }
        try put("c", in: full)
        full.use(oldest.id)
        #expect(full.state.withLock { $0.isRecordingUses })
        #expect(full.counts.entries == 2)
        #expect(full.entries(for: "a").count == 1 && full.entries(for: "b").isEmpty)
        #expect(!full.state.withLock { $0.isRecordingUses })
    }

    @Test func closedStoreWritesWhatWaits() throws {
        try put("a")
        store.close()
        awaitQueue()
        #expect(foreignCount() == 1)
    }

    @Test func twoResponsesOfOneKeyInOneTransactionLeaveTheLater() throws {
        try put("a", 100)
        try put("a", 200)
        #expect(store.entries(for: "a").map(\.head.bodyBytes) == [200])
        #expect(foreignCount() == 1)
    }
}
