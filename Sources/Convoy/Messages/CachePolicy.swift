// What a request asks of a cache.
import Foundation

/// How a request uses the cache of its manager: the cache modes of the Fetch standard.
///
/// Without a cache in ``RequestManager/Configuration/cache`` only ``onlyCache`` has an effect: the request ends with
/// `.invalidRequest`.
///
/// ```swift
/// let request = Request<Data>.get(url).cachePolicy(.revalidate)
/// ```
public enum CachePolicy: String, Sendable, Hashable, CaseIterable {
    /// A fresh response is the answer, a stale one is validated, any other comes over the network (`default`).
    case standard
    /// Stored responses are not looked at; the answer replaces them (`reload`).
    case reload
    /// A stored response is validated, also a fresh one, unless it is `immutable` (`no-cache`).
    case revalidate
    /// A stored response is the answer whatever its age; without one the request is sent (`force-cache`).
    case preferCache
    /// A stored response is the answer whatever its age; without one the answer is status 504 and nothing is sent
    /// (`only-if-cached`).
    case onlyCache
    /// Stored responses are not looked at, and the answer is not stored (`no-store`).
    case noStore
}

/// What one request asks of the cache.
package struct CacheOptions: Sendable, Hashable {
    package var policy = CachePolicy.standard
    /// What stands for the URL in the cache's key; nil for the URL itself.
    package var key: String?
    /// How old a stored response may be, as `max-age` of a request.
    package var maxAge: Duration?
    /// How long a stored response may have been stale, as `max-stale` of a request.
    package var maxStaleness: Duration?
    /// Whether the cache sends it by itself, to update a stored response.
    package var isRefresh = false

    package init() {}

    /// What cannot hold together, or nil.
    var defect: String? {
        if let maxAge, maxAge < .zero { return "the maximum age of a cached response is negative" }
        if let maxStaleness, maxStaleness < .zero { return "the maximum staleness of a cached response is negative" }
        if key?.isEmpty == true { return "the cache key is empty" }
        switch policy {
        case .standard: return nil
        case .reload, .revalidate, .noStore:
            if maxAge != nil || maxStaleness != nil {
                return "the cache policy \(policy.rawValue) uses no stored response as it is, "
                    + "so a maximum age or staleness means nothing"
            }
            return policy == .noStore && key != nil ? "the cache policy noStore has no use for a cache key" : nil
        case .preferCache, .onlyCache:
            guard maxAge != nil || maxStaleness != nil else { return nil }
            return "the cache policy \(policy.rawValue) takes responses of any age, "
                + "and a maximum age or staleness limits it"
        }
    }
}
