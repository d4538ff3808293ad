// Applies changes in order, many in one transaction.
import Convoy
import Foundation

extension DiskStore {
    /// Enqueues a change of one key, or of all keys.
    ///
    /// - Parameters:
    ///   - file: a body to remove if the change fails.
    ///   - isOptional: whether a failure is harmless. If false, a failure makes the entries under the key unusable.
    ///   - needsIndex: whether the change is pointless without an index. Such a change alone creates no index.
    ///   - bytes: the number of body bytes that the change keeps in memory until it is applied.
    func change(
        _ key: String?, file: String? = nil, isOptional: Bool = false, needsIndex: Bool = false, bytes: Int = 0,
        _ change: @escaping Change
    ) {
        state.withLock { state in
            state.changeCount += 1
            if let key {
                state.pendingKeys[key, default: 0] += 1
                if !state.misses.isEmpty { state.misses[key] = nil }
            } else {
                state.pendingForAll += 1
            }
            state.backlogBytes += bytes
            state.changes.append(
                QueuedChange(
                    key: key, file: file, isOptional: isOptional, needsIndex: needsIndex, bytes: bytes, change: change))
            drainSoon(&state, isUrgent: !isOptional)
        }
    }

    /// Schedules `drain()`: at once if urgent, otherwise after `gatherTime` for this change and later ones.
    ///
    /// The caller holds the lock.
    private func drainSoon(_ state: inout State, isUrgent: Bool) {
        if isUrgent || !state.waiters.isEmpty || state.changes.count >= Self.mostGathered {
            return beginDraining(&state)
        }
        guard !state.isDraining, !state.isGathering else { return }
        state.isGathering = true
        queue.asyncAfter(deadline: .now() + gatherTime) {
            self.state.withLock { $0.isGathering = false }
            self.drainNow()
        }
    }

    /// Schedules `drain()` if changes are queued, without waiting for more changes.
    func drainNow() { state.withLock { if !$0.changes.isEmpty { beginDraining(&$0) } } }

    /// Schedules `drain()`, unless it is already scheduled.
    ///
    /// The caller holds the lock, so that later work is enqueued after `drain()`.
    func beginDraining(_ state: inout State) {
        if !state.isDraining { queue.async { self.drain() } }
        state.isDraining = true
    }

    /// Waits for all changes that are queued now, at most ``mostWaitForAll``.
    ///
    /// Later changes do not extend the wait.
    func awaitAllChanges() {
        guard state.withLock({ $0.isPending(nil) }) else { return }
        let isOver = DispatchSemaphore(value: 0)
        // The work that is queued now may enqueue changes. The second block runs after `drain()` has applied them.
        queue.async { [queue] in
            self.drainNow()
            queue.async { isOver.signal() }
        }
        _ = isOver.wait(timeout: .now() + Self.mostWaitForAll)
    }

    /// Waits for the changes of one key; false if ``mostWait`` passes.
    func awaitChanges(_ key: String) -> Bool {
        let waiter = Waiter(key: key)
        let isPending = state.withLock { state in
            guard state.isPending(key) else { return false }
            state.waiters.append(waiter)
            if !state.changes.isEmpty { beginDraining(&state) }
            return true
        }
        guard isPending else { return true }
        guard waiter.isOver.wait(timeout: .now() + Self.mostWait) != .success else { return true }
        state.withLock { state in state.waiters.removeAll { $0.isOver === waiter.isOver } }
        return false
    }

    /// Applies all queued changes in one transaction.
    ///
    /// Changes that are queued meanwhile are applied by the next call, after the other work on the queue.
    private func drain() {
        let (changes, invalidKeys, damaged) = state.withLock { state in
            defer { (state.changes, state.damaged) = ([], nil) }
            return (state.changes, state.invalidKeys, state.damaged)
        }
        if let damaged { startOver(without: damaged) }
        let lost = changes.isEmpty ? invalidKeys : perform(changes, removing: invalidKeys)
        let over = state.withLock { state in
            state.invalidKeys = lost
            for change in changes {
                state.ended(change.key)
                state.backlogBytes -= change.bytes
            }
            state.isDraining = false
            let over = state.takeWaiters()
            if state.damaged != nil {
                beginDraining(&state)
            } else if !state.changes.isEmpty {
                drainSoon(&state, isUrgent: state.changes.contains { !$0.isOptional })
            }
            return over
        }
        for waiter in over { waiter.isOver.signal() }
        if hot.withLock({ $0.needsFilter }) { buildFilter() }
    }
}

extension DiskStore.State {
    /// Removes and returns the idle read connections, unless they belong to the index with this inode number.
    ///
    /// The number is stored for later connections. The caller releases the connections outside the lock, because
    /// the release closes them.
    mutating func takeReaders(unless number: UInt64) -> [Database] {
        guard indexNumber != number else { return [] }
        defer { (readers, indexNumber) = ([], number) }
        return readers
    }

    /// Whether changes of a key, or of any key, are pending.
    fileprivate func isPending(_ key: String?) -> Bool {
        guard let key else { return isDraining || pendingForAll > 0 || !pendingKeys.isEmpty }
        return pendingForAll > 0 || pendingKeys[key] != nil
    }

    /// Records the end of a change of one key, or of all keys.
    mutating func ended(_ key: String?) {
        guard let key else {
            pendingForAll -= 1
            return
        }
        let left = (pendingKeys[key] ?? 1) - 1
        pendingKeys[key] = left > 0 ? left : nil
    }

    /// Removes and returns the waiters whose keys have no pending changes.
    mutating func takeWaiters() -> [DiskStore.Waiter] {
        let all = waiters
        waiters = all.filter { isPending($0.key) }
        return all.filter { !isPending($0.key) }
    }
}
