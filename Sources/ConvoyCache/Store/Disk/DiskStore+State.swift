// The state of a store in a directory, and its queued changes.
import Convoy
import Foundation

extension DiskStore {
    /// A function that changes rows of the database, and records in `Effects` what else the store must do.
    typealias Change = @Sendable (Database, inout Effects) throws(DatabaseError) -> Void

    /// What a transaction does besides changing rows: files to move or remove, totals and counts.
    struct Effects {
        /// The files to move from the parts to the bodies after the commit.
        var named: [String] = []
        /// The files to remove after the commit.
        var removed: [String] = []
        /// The totals of the index, which the transaction stores at its end.
        var (bytes, entries, used) = (Int64(0), Int64(0), Int64(0))
        var evictions = 0
        /// The uses that the transaction records, which count as unrecorded again if it fails.
        var uses: [Int64: Int] = [:]
        /// The hashes of the keys that the transaction has changed; nil for all keys.
        var changed: Set<Int64>? = []
        /// The version of the index before the transaction; nil if it is unknown.
        var before: IndexVersion?
    }

    struct QueuedChange: Sendable {
        /// The key of the change; nil for all keys.
        let key: String?
        /// A body to remove if the change fails.
        let file: String?
        /// Whether a failure is harmless.
        let isOptional: Bool
        /// Whether the change is pointless if the index does not exist.
        let needsIndex: Bool
        /// The number of body bytes that the change keeps in memory until it is applied.
        let bytes: Int
        let change: Change
    }

    struct Waiter: Sendable {
        let key: String
        let isOver = DispatchSemaphore(value: 0)
    }

    struct State {
        /// The idle connections for reading.
        var readers: [Database] = []
        /// The inode number of the index that the idle connections opened.
        var indexNumber: UInt64 = 0
        var changes: [QueuedChange] = []
        /// The keys whose entries the store could not remove yet; a nil element means all keys.
        var invalidKeys: Set<String?> = []
        /// The threads that wait for changes.
        var waiters: [Waiter] = []
        /// The inode number of the index that the connection for changes opened.
        var writerNumber: UInt64 = 0
        /// The number of pending changes of each key.
        var pendingKeys: [String: Int] = [:]
        var pendingForAll = 0
        /// Whether `drain()` is enqueued or running.
        var isDraining = false
        /// Whether `drain()` will be enqueued when ``DiskStore/gatherTime`` has passed.
        var isGathering = false
        /// The entries whose use is not recorded in the index yet, each with the number of its last use.
        var used: [Int64: Int] = [:]
        var useCount = 0
        /// The time of the oldest use that is not recorded in the index yet.
        var firstUse: ContinuousClock.Instant?
        /// When uses may be recorded again after a failure; nil means at once.
        var nextUses: ContinuousClock.Instant?
        /// Whether a queued change will record the uses.
        var isRecordingUses = false
        /// The number of bytes that wait for the disk.
        var backlogBytes = 0
        var evictions = 0
        var repairs = 0
        /// The inode number of an index that was found to be damaged.
        var damaged: UInt64?
        /// The keys whose lookup found nothing, with the time of the lookup.
        var misses: [String: ContinuousClock.Instant] = [:]
        /// The number of changes enqueued so far.
        var changeCount = 0
        /// The earliest time to build the filter of keys again; nil means at once.
        var nextFilter: ContinuousClock.Instant?
        /// The number of empty lookups on the disk since a filter was last built, and the number at which one is built.
        var (missCount, missesForFilter) = (0, 0)
        /// Whether a lookup has enqueued the construction of a filter.
        var awaitsFilter = false
    }
}
