import Convoy
import Foundation

// A hit does not compute the digest of an unchanged body again. Each write updates the status change time (`st_ctime`),
// which no program can set. Two changes within one tick of the clock leave the same time, so a file that has just
// changed is not remembered.
// One lock protects the state; no other lock is acquired under it.
final class VerifiedFiles: Sendable {
    private static let mostFiles = 4096
    /// Longer than any clock tick.
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

/// These values change with the bytes of the file.
struct FileStamp: Sendable, Equatable {
    let inode: UInt64
    let byteCount: Int64
    let (changedSeconds, changedNanoseconds): (Int, Int)
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
