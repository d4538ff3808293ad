// The stored files whose digests this process has checked.
import Convoy
import Foundation

/// Remembers the change times and inode numbers of checked files.
///
/// A hit thus does not compute the digest of an unchanged body again. Each write to a file updates its status change
/// time (`st_ctime`), which no program can set. Two changes within one tick of the system's clock leave the same time,
/// so a file that has just changed is not remembered.
///
/// ## Concurrency
/// One lock protects the state. No other lock is acquired under this lock.
final class VerifiedFiles: Sendable {
    private static let mostFiles = 4096
    /// How old the last change of a file must be to remember the file, in seconds; longer than any clock tick.
    private static let leastAge = 0.1

    private let stamps = Locked([String: FileStamp]())

    func isUnchanged(_ name: String, _ file: StoredFile) -> Bool {
        guard let stamp = file.stamp else { return false }
        return stamps.withLock { $0[name] == stamp }
    }

    func add(_ name: String, _ stamp: FileStamp?) {
        guard let stamp, Date().timeIntervalSince1970 - stamp.changed > Self.leastAge else { return }
        stamps.withLock { stamps in
            if stamps.count >= Self.mostFiles { stamps = [:] }
            stamps[name] = stamp
        }
    }
}

/// The inode number, length and change time of a file, which change with its bytes.
struct FileStamp: Sendable, Equatable {
    let inode: UInt64
    let byteCount: Int64
    let (changedSeconds, changedNanoseconds): (Int, Int)
    /// The time of the last change, in seconds since 1970.
    var changed: Double { Double(changedSeconds) + Double(changedNanoseconds) / 1e9 }

    init(_ status: stat) {
        (inode, byteCount) = (UInt64(status.st_ino), Int64(status.st_size))
        #if canImport(Darwin)
            let changed = status.st_ctimespec
        #else
            let changed = status.st_ctim
        #endif
        (changedSeconds, changedNanoseconds) = (Int(changed.tv_sec), Int(changed.tv_nsec))
    }
}
