// The memory of the store for its index: entries, misses, and uses that are not recorded yet.
import Convoy
import Foundation

extension DiskStore {
    /// The version of the index; nil if it is unknown or another process has replaced the index.
    var indexVersion: IndexVersion? {
        guard let watch = watch.withLock({ $0 }), directory.indexNumber == watch.number else { return nil }
        return watch.version
    }

    func entriesInMemory(for key: String) -> [StoredEntry]? {
        let isCertain = state.withLock { state in
            state.invalidKeys.isEmpty && state.pendingForAll == 0 && state.pendingKeys[key] == nil
        }
        guard isCertain, let version = indexVersion else { return nil }
        let hash = KeyHash.of(key)
        return hot.withLock { $0.find(key, hash, in: version) }
    }

    /// Builds the filter of stored keys, which recognizes missing keys.
    ///
    /// The call has no effect until lookups of missing keys have cost about as much as the filter. A process with few
    /// such lookups builds none, unless the index has fewer than ``entriesPerMiss`` entries.
    ///
    /// The filter is discarded if the index changes during the construction.
    ///
    /// - Thread: the store's queue.
    func buildFilter() {
        let began = ContinuousClock.now
        guard state.withLock({ $0.paysFilter(at: began) }), let version = indexVersion,
            hot.withLock({ $0.needsFilter || $0.version != version }),
            let database = writer.withLock({ $0 }),
            let count = try? database.rows("SELECT entries FROM totals", make: { $0.integer(0) }).first
        else { return }
        let isDue = state.withLock { state in
            state.missesForFilter = Int(clamping: count) / Self.entriesPerMiss
            return state.paysFilter(at: began)
        }
        guard isDue else { return }
        var filter = KeyFilter(capacity: Int(clamping: count))
        let read: ()? = try? database.each("SELECT hash FROM entries") { filter.insert($0.integer(0)) }
        // Other processes may change the index often. The pause limits building to about a tenth of the time.
        let end = ContinuousClock.now
        state.withLock { ($0.nextFilter, $0.missCount) = (end + began.duration(to: end) * 10, 0) }
        guard read != nil, indexVersion == version else { return }
        hot.withLock { [filter] in $0.use(filter, of: version) }
    }

    /// Builds the filter on the store's queue, if there is none or it is too full.
    ///
    /// Each lookup calls this method. A process that only reads never runs `drain()`, which also builds the filter.
    func buildFilterLater() {
        guard hot.withLock({ $0.needsFilter }) else { return }
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            let isDue = !state.awaitsFilter && state.paysFilter(at: now)
            if isDue { state.awaitsFilter = true }
            return isDue
        }
        guard isDue else { return }
        queue.async {
            self.state.withLock { $0.awaitsFilter = false }
            self.buildFilter()
        }
    }

    // MARK: Misses

    /// Records that a lookup found nothing under a key.
    ///
    /// - Parameter changeCount: the number of enqueued changes before the lookup. If it has grown, the miss is not
    ///   recorded, because a change may have stored the key.
    func noteMiss(of key: String, _ changeCount: Int) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.missCount += 1
            guard state.changeCount == changeCount else { return }
            if state.misses.count >= Self.mostMisses { state.misses = [:] }
            state.misses[key] = now
        }
    }

    func takeMiss(of key: String) -> Bool {
        if entriesInMemory(for: key)?.isEmpty == true { return true }
        guard let found = state.withLock({ $0.misses.removeValue(forKey: key) }) else { return false }
        return found.duration(to: .now) < Self.missLifetime
    }

    // MARK: Uses

    func use(_ id: Int64) {
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            state.useCount += 1
            state.used[id] = state.useCount
            state.limitUses()
            let first = state.firstUse ?? now
            state.firstUse = first
            let isDue = state.used.count >= Self.mostUses || first.duration(to: now) >= Self.mostUseAge
            return isDue && state.nextUses ?? now <= now
        }
        if isDue { recordUses() }
    }

    /// Records the uses in the index.
    ///
    /// A transaction that stores a response also records uses. This call is needed if all requests are hits.
    private func recordUses() {
        // Recording uses must not recreate a directory that was removed.
        guard directory.indexNumber != 0 else { return }
        let isNeeded = state.withLock { state in
            defer { state.isRecordingUses = state.isRecordingUses || !state.used.isEmpty }
            return !state.isRecordingUses && !state.used.isEmpty
        }
        guard isNeeded else { return }
        change("", isOptional: true, needsIndex: true) { [self] database, effects throws(DatabaseError) in
            try Self.note(takeUses(isDue: true), in: database, &effects)
        }
    }

    func close() {
        recordUses()
        drainNow()
    }

    /// Removes and returns the uses that are not recorded yet, with their order.
    ///
    /// Code inside a transaction calls this method, so that a transaction that does not begin loses no uses.
    ///
    /// - Parameter isDue: whether to take them even soon after a failure.
    func takeUses(isDue: Bool = false) -> [Int64: Int] {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard isDue || state.nextUses ?? now <= now else { return [:] }
            if isDue { state.isRecordingUses = false }
            defer { (state.used, state.firstUse, state.nextUses) = ([:], nil, nil) }
            return state.used
        }
    }

    /// Puts back the uses that a failed transaction took.
    ///
    /// On a full disk, each transaction that records uses would also fail. So the uses wait for ``mostUseAge``.
    func returnUses(_ uses: [Int64: Int]) {
        let next = ContinuousClock.now + Self.mostUseAge
        state.withLock { state in
            guard !uses.isEmpty || state.isRecordingUses else { return }
            state.isRecordingUses = false
            state.used.merge(uses) { max($0, $1) }
            state.limitUses()
            state.nextUses = next
        }
    }

    static func note(_ used: [Int64: Int], in database: Database, _ effects: inout Effects) throws(DatabaseError) {
        effects.uses.merge(used) { max($0, $1) }
        for id in used.sorted(by: { $0.value < $1.value }).map(\.key) {
            effects.used += 1
            try database.run("UPDATE uses SET used = ? WHERE id = ?", .integer(effects.used), .integer(id))
        }
    }
}

extension DiskStore.State {
    /// Whether a filter may be built now, and saves more than it costs.
    fileprivate func paysFilter(at now: ContinuousClock.Instant) -> Bool {
        nextFilter ?? now <= now && missCount >= missesForFilter
    }

    /// If there are more than ``DiskStore/mostUses`` uses, keeps only the latest half of that number.
    fileprivate mutating func limitUses() {
        guard used.count > DiskStore.mostUses else { return }
        let order = used.values.sorted()
        let least = order[order.count - DiskStore.mostUses / 2]
        used = used.filter { $0.value >= least }
    }
}
