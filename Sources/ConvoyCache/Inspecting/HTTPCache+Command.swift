// The functions that the command uses beyond the public interface.
import Foundation

extension HTTPCache {
    /// Whether a directory contains a cache.
    ///
    /// The check creates no file.
    package static func isThere(in directory: URL) -> Bool { CacheDirectory(path: directory.path).indexNumber != 0 }

    /// Whether another process keeps the lock of a cache directory for two seconds.
    ///
    /// A lookup that must open the index finds nothing while the lock is held.
    package static func isLocked(in directory: URL) -> Bool {
        let directory = CacheDirectory(path: directory.path)
        // A cache of another user is not used, so its lock does not matter.
        return !directory.isForeign && (try? directory.locked { () throws(DatabaseError) in }) == nil
    }

    /// The ``CacheEntry/key`` of a URL.
    package func key(of url: URL) -> String { CacheKey.key(url, store.digest) }
}
