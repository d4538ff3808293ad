// How changes are made: in order, many in one transaction.
import Convoy
import Foundation

extension DiskStore {
    /// Has a change made; of a key, or of all.
    ///
    /// - Parameters:
    ///   - file: a body that is removed when the change fails.
    ///   - isOptional: whether nothing is wrong when it fails; else what is under the key is not used any more.
    func change(_ key: String?, file: String? = nil, isOptional: Bool = false, _ change: @escaping Change) {
        state.withLock { state in
            state.changeCount += 1
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

    /// Has the changes made.
    ///
    /// Under the lock: what comes to the queue later comes behind them.
    private func beginDraining(_ state: inout State) {
        if !state.isDraining { queue.async { self.drain() } }
        state.isDraining = true
    }

    /// Waits until the changes of a key, or all, have been made; false when that takes too long.
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

    /// Makes all changes that have come, in one transaction; what comes meanwhile has its turn behind the queue's other work.
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

    /// Makes changes, and removes what could not be removed before.
    ///
    /// - Returns: the keys whose entries may be out of date, as their change could not be made.
    private func perform(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Set<String?> {
        if make(changes, removing: invalidKeys) { return [] }
        // A response that cannot be stored must not keep another from being removed.
        let optional = changes.filter(\.isOptional)
        for file in optional.compactMap(\.file) { directory.remove(file) }
        let needed = changes.filter { !$0.isOptional }
        if needed.isEmpty, invalidKeys.isEmpty { return [] }
        if !optional.isEmpty, make(needed, removing: invalidKeys) { return [] }
        return invalidKeys.union(needed.map(\.key))
    }

    /// Makes changes in one transaction; false when none of them could be made.
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

    /// The connection for changes; opened again when another process has put another index in its place.
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

    /// An index is damaged: everything goes, and it is begun anew, unless another process has done so.
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
    /// Whether changes of a key, or any, are under way.
    fileprivate func isPending(_ key: String?) -> Bool {
        guard let key else { return isDraining || pendingForAll > 0 || !pendingKeys.isEmpty }
        return pendingForAll > 0 || pendingKeys[key] != nil
    }

    /// One change of a key, or of all, has been made.
    mutating func ended(_ key: String?) {
        guard let key else {
            pendingForAll -= 1
            return
        }
        let left = (pendingKeys[key] ?? 1) - 1
        pendingKeys[key] = left > 0 ? left : nil
    }

    /// Those who need not wait any more.
    mutating func takeWaiters() -> [DiskStore.Waiter] {
        let all = waiters
        waiters = all.filter { isPending($0.key) }
        return all.filter { !isPending($0.key) }
    }
}
