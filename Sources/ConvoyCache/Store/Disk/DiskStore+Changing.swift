// How changes are made: in order, many in one transaction.
import Convoy
import Foundation

extension DiskStore {
    /// Has a change made; of a key, or of all.
    func change(_ key: String?, _ change: @escaping Change) {
        let drains = state.withLock { state in
            if let key { state.pendingKeys[key, default: 0] += 1 } else { state.pendingForAll += 1 }
            state.changes.append((key, change))
            defer { state.isDraining = true }
            return !state.isDraining
        }
        if drains { queue.async { self.drain() } }
    }

    /// Waits until the changes of a key, or all, have been made.
    func awaitChanges(_ key: String?) {
        let isPending = state.withLock { state in
            guard let key else { return state.isDraining || !state.pendingKeys.isEmpty }
            return state.pendingForAll > 0 || state.pendingKeys[key] != nil
        }
        guard isPending else { return }
        // What a body's file has been waited for adds another change behind this.
        queue.sync {}
        queue.sync {}
    }

    /// Makes all changes that have come, in one transaction.
    private func drain() {
        while true {
            let (changes, isDamaged) = state.withLock { state in
                defer { (state.changes, state.isDamaged) = ([], false) }
                if state.changes.isEmpty, !state.isDamaged { state.isDraining = false }
                return (state.changes, state.isDamaged)
            }
            if isDamaged { startOver() }
            guard !changes.isEmpty else {
                if isDamaged { continue }
                return
            }
            perform(changes.map(\.change))
            state.withLock { state in
                for (key, _) in changes {
                    guard let key else {
                        state.pendingForAll -= 1
                        continue
                    }
                    let left = (state.pendingKeys[key] ?? 1) - 1
                    state.pendingKeys[key] = left > 0 ? left : nil
                }
            }
        }
    }

    private func perform(_ changes: [Change]) {
        for _ in 0..<2 {
            do throws(DatabaseError) {
                let database = try openWriter()
                var left: [String] = []
                try database.transaction { () throws(DatabaseError) in
                    for change in changes { try change(database, &left) }
                }
                for file in left { unlink(directory.body(file)) }
                return
            } catch {
                // What cannot be stored is not stored. After damage it is tried once more.
                guard error.isDamage else { return }
                startOver()
            }
        }
    }

    /// The connection for changes; opened again when another process has put another index in its place.
    private func openWriter() throws(DatabaseError) -> Database {
        let number = directory.indexNumber
        let kept = state.withLock { $0.indexNumber == number && number != 0 }
        if kept, let database = writer.withLock({ $0 }) { return database }
        let (database, wasEmptied) = try Database.index(in: directory, busyMilliseconds: 5_000)
        writer.withLock { $0 = database }
        let opened = directory.indexNumber
        state.withLock { state in
            if wasEmptied { state.repairs += 1 }
            if state.indexNumber != opened { (state.readers, state.indexNumber) = ([], opened) }
        }
        return database
    }

    /// The index is damaged: everything goes, and it is begun anew.
    private func startOver() {
        writer.withLock { $0 = nil }
        state.withLock { state in
            (state.readers, state.indexNumber) = ([], 0)
            state.repairs += 1
        }
        directory.empty()
    }

    func reportDamage() {
        let drains = state.withLock { state in
            state.isDamaged = true
            defer { state.isDraining = true }
            return !state.isDraining
        }
        if drains { queue.async { self.drain() } }
    }

    func repair(_ ids: [Int64], of key: String) {
        state.withLock { $0.repairs += ids.count }
        remove(ids, of: key)
    }

    func sweep() {
        guard let database = try? openWriter() else { return }
        directory.sweep { name in
            let found = try? database.rows("SELECT 1 FROM entries WHERE file = ?", .text(name)) { $0.integer(0) }
            return found?.isEmpty != true
        }
    }
}
