import ConvoySQLite
import Foundation
import Synchronization

// The header of the write-ahead log in shared memory, which each commit changes. SQLite compares the same bytes to
// learn whether its pages are current (https://sqlite.org/walformat.html, section 2.1).
struct IndexVersion: Sendable, Equatable {
    private let words: SIMD8<UInt64>

    init(_ header: UnsafeRawPointer) {
        var words = SIMD8<UInt64>()
        for index in 0..<6 { words[index] = header.load(fromByteOffset: 8 * index, as: UInt64.self) }
        self.words = words
    }

    private var commitCount: UInt32 { UInt32(truncatingIfNeeded: words[1]) }
    fileprivate var isValid: Bool { UInt8(truncatingIfNeeded: words[1] >> 32) != 0 }

    func follows(_ older: IndexVersion) -> Bool { self == older || commitCount == older.commitCount &+ 1 }
}

final class OpenIndex: @unchecked Sendable {
    // @unchecked: the properties never change. The connection keeps the shared memory mapped.
    let database: SQLiteConnection
    private let header: UnsafeRawPointer?
    let number: UInt64

    init(_ database: SQLiteConnection, number: UInt64) {
        (self.database, self.number, header) = (database, number, database.sharedMemory)
    }

    // Nil while a commit is being published. Any thread; only reads memory.
    var version: IndexVersion? {
        guard let header else { return nil }
        // The memory has two copies of the header, and a writer changes the second copy first. Different copies
        // therefore mean that a commit is being published.
        let first = IndexVersion(header)
        atomicMemoryFence(ordering: .acquiring)
        let second = IndexVersion(header + 48)
        return first == second && first.isValid ? first : nil
    }
}
