// How changes are made: in order, many in one transaction.
import Convoy
import Foundation

extension DiskStore {
    /// Queues a change of a key, or of all keys.
    ///
    /// - Parameters:
    ///   - file: a body to remove when the change fails.
    ///   - isOptional: whether the change may fail without consequences. Otherwise the entries of the key are not
    ///     used any more after a failure.
    func change(_ key: String?, file: String? = nil, isOptional: Bool = false, _ change: @escaping Change) {
        state.withLock { state in
            if let key {
                state.pendingKeys[key, default: 0] += 1
                state.misses[key] = nil
            } else {
                state.pendingForAll += 1
            }
            state.changes.append(QueuedChange(key: key, file: file, isOptional: isOptional, change: change))
            beginDraining(&state)
        }
    }

    /// Schedules the changes.
    ///
    /// It runs under the lock, so that later work on the queue runs after the changes.
    private func beginDraining(_ state: inout State) {
        if !state.isDraining { queue.async { self.drain() } }
        state.isDraining = true
    }

    /// Waits until the changes of a key, or all changes, were made.
    ///
    /// False when that takes too long.
    func awaitChanges(_ key: String?, within limit: DispatchTimeInterval? = nil) -> Bool {
        let waiter = Waiter(key: key)
        let isPending = state.withLock { state in
            guard state.isPending(key) else { return false }
            state.waiters.append(waiter)
            return true
        }
        guard isPending else { return true }
        guard waiter.isOver.wait(timeout: limit.map { .now() + $0 } ?? .distantFuture) != .success else { return true }
        state.withLock { state in state.waiters.removeAll { $0.isOver === waiter.isOver } }
        return false
    }

    /// Makes all queued changes in one transaction.
    ///
    /// Later changes wait for other work on the queue.
    private func drain() {
        let (changes, invalidKeys, damaged) = state.withLock { state in
            defer { (state.changes, state.damaged) = ([], nil) }
            return (state.changes, state.invalidKeys, state.damaged)
        }
        if let damaged { startOver(without: damaged) }
        let lost = changes.isEmpty ? invalidKeys : perform(changes, removing: invalidKeys)
        let over = state.withLock { state in
            state.invalidKeys = lost
            for change in changes { state.ended(change.key) }
            state.isDraining = false
            if !state.changes.isEmpty || state.damaged != nil { beginDraining(&state) }
            return state.takeWaiters()
        }
        for waiter in over { waiter.isOver.signal() }
    }

    /// Makes changes, and removes entries that could not be removed before.
    ///
    /// - Returns: the keys whose entries may be outdated because their change failed.
    private func perform(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Set<String?> {
        if make(changes, removing: invalidKeys) { return [] }
        // A response that cannot be stored must not prevent the removal of another.
        let optional = changes.filter(\.isOptional)
        for file in optional.compactMap(\.file) { directory.remove(file) }
        let needed = changes.filter { !$0.isOptional }
        if needed.isEmpty, invalidKeys.isEmpty { return [] }
        if !optional.isEmpty, make(needed, removing: invalidKeys) { return [] }
        return invalidKeys.union(needed.map(\.key))
    }

    /// Makes changes in one transaction; false when it failed.
    private func make(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Bool {
        for _ in 0..<2 {
            var files = FileChanges()
            do throws(DatabaseError) {
                let database = try openWriter()
                try database.transaction { () throws(DatabaseError) in
                    for key in invalidKeys { try Self.deleteAll(key, in: database, &files) }
                    for change in changes { try change.change(database, &files) }
                    for file in files.removed { directory.release(file) }
                }
                for file in files.named { directory.settle(file) }
                for file in files.removed { directory.remove(file) }
                return true
            } catch {
                for file in files.removed { directory.settle(file) }
                // What cannot be stored is not stored. After damage it is tried once more.
                guard error.isDamage else { return false }
                startOver(without: state.withLock { $0.writerNumber })
            }
        }
        return false
    }

    /// The connection for changes, reopened when another process has replaced the index.
    private func openWriter() throws(DatabaseError) -> Database {
        let number = directory.indexNumber
        let kept = state.withLock { $0.writerNumber == number && number != 0 }
        if kept, let database = writer.withLock({ $0 }) { return database }
        let (database, wasEmptied) = try Database.index(
            in: directory, busyMilliseconds: 5_000, mayEmpty: true)
        writer.withLock { $0 = database }
        let opened = directory.indexNumber
        state.withLock { state in
            if wasEmptied { state.repairs += 1 }
            state.writerNumber = opened
            if state.indexNumber != opened { (state.readers, state.indexNumber) = ([], opened) }
        }
        return database
    }

    /// Replaces a damaged index by an empty one, unless another process has done so.
    private func startOver(without number: UInt64) {
        writer.withLock { $0 = nil }
        state.withLock { state in
            (state.readers, state.indexNumber, state.writerNumber) = ([], 0, 0)
            state.repairs += 1
        }
        _ = try? directory.locked { () throws(DatabaseError) in
            if directory.indexNumber == number { directory.empty() }
        }
    }

    func reportDamage(of number: UInt64) {
        state.withLock { state in
            state.damaged = number
            beginDraining(&state)
        }
    }

    func repair(_ ids: [Int64], of key: String) {
        state.withLock { $0.repairs += ids.count }
        remove(ids, of: key)
    }

    func sweep() {
        guard let database = try? openWriter() else { return }
        directory.sweep { name in
            let found = try? database.rows("SELECT 1 FROM entries WHERE file = ?", .text(name)) { $0.integer(0) }
            return found.map { !$0.isEmpty }
        }
    }
}

extension DiskStore.State {
    /// Whether changes of a key, or any changes, are queued.
    fileprivate func isPending(_ key: String?) -> Bool {
        guard let key else { return isDraining || pendingForAll > 0 || !pendingKeys.isEmpty }
        return pendingForAll > 0 || pendingKeys[key] != nil
    }

    /// Records that a change of a key, or of all keys, was made.
    mutating func ended(_ key: String?) {
        guard let key else {
            pendingForAll -= 1
            return
        }
        let left = (pendingKeys[key] ?? 1) - 1
        pendingKeys[key] = left > 0 ? left : nil
    }

    /// Takes the waiters that need not wait any more.
    mutating func takeWaiters() -> [DiskStore.Waiter] {
        let all = waiters
        waiters = all.filter { isPending($0.key) }
        return all.filter { !isPending($0.key) }
    }
}
