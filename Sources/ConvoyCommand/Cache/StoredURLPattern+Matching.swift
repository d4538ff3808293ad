// Selects stored responses by URL.
import Convoy
import ConvoyCache
import ConvoyHTTPFile

extension StoredURLPattern {
    /// Makes a predicate for the entries of a cache.
    func matcher(in cache: HTTPCache) -> @Sendable (CacheEntry) -> Bool {
        switch self {
        case .urls(let urls):
            let keys = urls.map { cache.key(of: $0) }
            // For a request with a `Host` field, the key continues with `hostMark` and the host. The prefix selects it.
            return { entry in keys.contains { entry.key == $0 || entry.key.hasPrefix($0 + CacheKey.hostMark) } }
        case .glob(let pattern):
            return { entry in
                // In the key, `#` ends the URL. A digest of user and password, or the host of a `Host` field, may
                // follow.
                let url = String(entry.key.prefix { $0 != "#" })
                let scheme = url.range(of: "://")?.upperBound ?? url.startIndex
                return String(pattern.contains("://") ? url[...] : url[scheme...]).matches(pattern: pattern)
            }
        }
    }
}
