// Applies queued changes in transactions, and opens the index for them.
import Convoy
import Foundation

extension DiskStore {
    /// Applies changes, and retries removals that failed before.
    ///
    /// - Returns: the keys with possibly outdated entries, because their change failed.
    func perform(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Set<String?> {
        if make(changes, removing: invalidKeys) { return [] }
        // A response that cannot be stored must not prevent other entries from being removed.
        let optional = changes.filter(\.isOptional)
        for file in optional.compactMap(\.file) { directory.remove(file) }
        let needed = changes.filter { !$0.isOptional }
        if needed.isEmpty, invalidKeys.isEmpty { return [] }
        if !optional.isEmpty, make(needed, removing: invalidKeys) { return [] }
        return invalidKeys.union(needed.map(\.key))
    }

    /// Applies changes in one transaction; false if it failed.
    private func make(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Bool {
        if invalidKeys.isEmpty, changes.allSatisfy(\.needsIndex), directory.indexNumber == 0 {
            state.withLock { $0.isRecordingUses = false }
            return true
        }
        for _ in 0..<2 {
            var effects = Effects()
            do throws(DatabaseError) {
                let database = try openWriter()
                let watch = watch.withLock { $0 }
                try database.transaction { () throws(DatabaseError) in
                    // The transaction has the write lock, so no other process commits now.
                    effects.before = watch?.version
                    try effects.readTotals(database)
                    for key in invalidKeys { try Self.deleteAll(key, in: database, &effects) }
                    for change in changes { try change.change(database, &effects) }
                    try effects.writeTotals(database)
                    for file in effects.removed { directory.release(file) }
                }
                let after = watch?.version
                hot.withLock { [effects] in $0.advance(from: effects.before, to: after, changed: effects.changed) }
                state.withLock { [effects] in $0.evictions += effects.evictions }
                for file in effects.named { directory.settle(file) }
                for file in effects.removed { directory.remove(file) }
                return true
            } catch {
                for file in effects.removed { directory.settle(file) }
                returnUses(effects.uses)
                // If the index is damaged, it is removed and the transaction is tried once more.
                guard error.isDamage else { return false }
                startOver(without: state.withLock { $0.writerNumber })
            }
        }
        return false
    }

    /// Returns the connection for changes, and reopens it if another process has replaced the index.
    private func openWriter(mayEmpty: Bool = true) throws(DatabaseError) -> Database {
        let number = directory.indexNumber
        let kept = state.withLock { $0.writerNumber == number && number != 0 }
        if kept, let database = writer.withLock({ $0 }) { return database }
        let (database, opened, wasEmptied) = try openIndex(mayEmpty: mayEmpty)
        let old = writer.withLock { kept in
            defer { kept = database }
            return kept
        }
        let outdated = state.withLock { state in
            if wasEmptied { state.repairs += 1 }
            state.writerNumber = opened
            return state.takeReaders(unless: opened)
        }
        let unwatched = replaceWatch(IndexWatch(database, number: opened))
        _ = (old, outdated, unwatched)
        buildFilter()
        return database
    }

    /// Opens the index and reads its inode number.
    ///
    /// The call opens the index again if it was created or replaced during the opening.
    ///
    /// - Throws: ``DatabaseError/busy`` after four attempts.
    private func openIndex(
        mayEmpty: Bool
    ) throws(DatabaseError) -> (Database, number: UInt64, wasEmptied: Bool) {
        var wasEmptied = false
        for _ in 0..<4 {
            let number = directory.indexNumber
            let opened = try Database.index(in: directory, busyMilliseconds: 5_000, mayEmpty: mayEmpty)
            wasEmptied = wasEmptied || opened.wasEmptied
            if number != 0, directory.indexNumber == number { return (opened.0, number, wasEmptied) }
        }
        throw DatabaseError(code: DatabaseError.busy)
    }

    /// Replaces the object that watches the version of the index; nil ends the watching.
    ///
    /// - Returns: the earlier object, which the caller releases outside the lock.
    private func replaceWatch(_ new: IndexWatch?) -> IndexWatch? {
        watch.withLock { watch in
            defer { watch = new }
            return watch
        }
    }

    /// Removes a damaged index and all bodies, unless another process has already done so.
    func startOver(without number: UInt64) {
        let old = writer.withLock { kept in
            defer { kept = nil }
            return kept
        }
        let outdated = state.withLock { state in
            state.writerNumber = 0
            state.repairs += 1
            return state.takeReaders(unless: 0)
        }
        _ = (old, outdated, replaceWatch(nil))
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
        guard let database = try? openWriter(mayEmpty: false) else { return }
        directory.sweep { name in
            let found = try? database.rows("SELECT 1 FROM entries WHERE file = ?", .text(name)) { $0.integer(0) }
            return found.map { !$0.isEmpty }
        }
    }
}

extension DiskStore.Effects {
    fileprivate mutating func readTotals(_ database: Database) throws(DatabaseError) {
        let totals = try database.rows("SELECT bytes, entries, used FROM totals") {
            ($0.integer(0), $0.integer(1), $0.integer(2))
        }
        guard let totals = totals.first else { throw DatabaseError(code: DatabaseError.corrupt) }
        (bytes, entries, used) = totals
        try checkTotals()
    }

    /// Throws for impossible totals, so that forged values never overflow a sum.
    private func checkTotals() throws(DatabaseError) {
        let isPossible = [bytes, entries, used].allSatisfy { 0...1 << 48 ~= $0 }
        guard isPossible else { throw DatabaseError(code: DatabaseError.corrupt) }
    }

    fileprivate func writeTotals(_ database: Database) throws(DatabaseError) {
        try checkTotals()
        try database.run(
            "UPDATE totals SET bytes = ?, entries = ?, used = ?", .integer(bytes), .integer(entries), .integer(used))
    }
}
