// What the command needs beyond what people do.
import Foundation

extension HTTPCache {
    /// Whether a directory has a cache in it; nothing is made.
    package static func isThere(in directory: URL) -> Bool { CacheDirectory(path: directory.path).indexNumber != 0 }

    /// What ``CacheEntry/key`` is for a URL.
    package static func key(of url: URL) -> String { CacheKey.key(url) }
}
