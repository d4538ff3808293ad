// How changes are made: in order, many in one transaction.
import Convoy
import Foundation

extension DiskStore {
    /// Has a change made; of a key, or of all.
    ///
    /// - Parameter file: a body that is removed when the change fails.
    func change(_ key: String?, file: String? = nil, _ change: @escaping Change) {
        state.withLock { state in
            if let key { state.pendingKeys[key, default: 0] += 1 } else { state.pendingForAll += 1 }
            state.changes.append((key, file, change))
            beginDraining(&state)
        }
    }

    /// Has the changes made.
    ///
    /// Under the lock: whoever sees that changes are under way and waits for the queue waits for them.
    private func beginDraining(_ state: inout State) {
        if !state.isDraining { queue.async { self.drain() } }
        state.isDraining = true
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
            let (changes, damaged) = state.withLock { state in
                defer { (state.changes, state.damaged) = ([], nil) }
                if state.changes.isEmpty, state.damaged == nil { state.isDraining = false }
                return (state.changes, state.damaged)
            }
            if let damaged { startOver(without: damaged) }
            guard !changes.isEmpty else {
                if damaged != nil { continue }
                return
            }
            if !perform(changes.map(\.change)) {
                for file in changes.compactMap(\.file) { unlink(directory.body(file)) }
            }
            state.withLock { state in
                for (key, _, _) in changes {
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

    /// Makes changes; false when none of them could be made.
    private func perform(_ changes: [Change]) -> Bool {
        for _ in 0..<2 {
            do throws(DatabaseError) {
                let database = try openWriter()
                var left: [String] = []
                try database.transaction { () throws(DatabaseError) in
                    for change in changes { try change(database, &left) }
                }
                for file in left { unlink(directory.body(file)) }
                return true
            } catch {
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
            return found?.isEmpty != true
        }
    }
}
