// How a request uses the cache.
import Foundation

/// How a request uses the cache of its manager, with the cache modes of the Fetch standard.
///
/// Without a cache in ``RequestManager/Configuration/cache`` only ``onlyCache`` has an effect: the request fails with
/// `.invalidRequest`.
///
/// ```swift
/// let request = Request<Data>.get(url).cachePolicy(.revalidate)
/// ```
public enum CachePolicy: String, Sendable, Hashable, CaseIterable {
    /// A fresh stored response is used, and a stale one is validated. If none is stored, the request is sent
    /// (`default`).
    case standard
    /// Stored responses are ignored, and the new response replaces them (`reload`).
    case reload
    /// A stored response is validated even if it is fresh, unless it is `immutable` (`no-cache`).
    case revalidate
    /// A stored response is used whatever its age. If none is stored, the request is sent (`force-cache`).
    case preferCache
    /// A stored response is used whatever its age. If none is stored, the status is 504, and no request is sent
    /// (`only-if-cached`).
    case onlyCache
    /// Stored responses are ignored, and the new response is not stored (`no-store`).
    case noStore
}

/// The cache options of one request.
package struct CacheOptions: Sendable, Hashable {
    package var policy = CachePolicy.standard
    /// Replaces the URL in the cache's key; nil for the URL itself.
    package var key: String?
    /// The maximum age of a stored response, as `max-age` of a request.
    package var maxAge: Duration?
    /// How long a stored response may have been stale, as `max-stale` of a request.
    package var maxStaleness: Duration?
    /// Whether the cache itself sends the request, to update a stored response.
    package var isRefresh = false

    package init() {}

    /// Why the options are invalid or contradict each other; nil if they are valid.
    var defect: String? {
        if let maxAge, maxAge < .zero { return "the maximum age of a cached response is negative" }
        if let maxStaleness, maxStaleness < .zero { return "the maximum staleness of a cached response is negative" }
        if key?.isEmpty == true { return "the cache key is empty" }
        switch policy {
        case .standard: return nil
        case .reload, .revalidate, .noStore:
            if maxAge != nil || maxStaleness != nil {
                return "the cache policy \(policy.rawValue) uses no stored response without validation, "
                    + "so a maximum age or staleness has no meaning"
            }
            return policy == .noStore && key != nil ? "the cache policy noStore has no use for a cache key" : nil
        case .preferCache, .onlyCache:
            guard maxAge != nil || maxStaleness != nil else { return nil }
            return "the cache policy \(policy.rawValue) accepts responses of any age, "
                + "but a maximum age or staleness limits it"
        }
    }
}
