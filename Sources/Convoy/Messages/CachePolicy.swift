// How a request uses the cache.
import Foundation

/// How a request uses the cache of its manager, with the cache modes of the Fetch standard.
///
/// ```swift
/// let request = Request<Data>.get(url).cachePolicy(.revalidate)
/// ```
///
/// Without a cache only ``onlyCache`` has an effect: the request fails with `.invalidRequest`.
public enum CachePolicy: String, Sendable, Hashable, CaseIterable {
    /// A fresh stored response is used, a stale one is validated, and without one the request is sent (`default`).
    case standard
    /// Stored responses are ignored, and the new response replaces them (`reload`).
    case reload
    /// A stored response is validated even if it is fresh, unless it is `immutable` (`no-cache`).
    case revalidate
    /// A stored response is used whatever its age. If none is stored, the request is sent (`force-cache`).
    case preferCache
    /// A stored response of any age is used; without one the status is 504, and nothing is sent (`only-if-cached`).
    case onlyCache
    /// Stored responses are ignored, and the new response is not stored (`no-store`).
    case noStore
}

package struct CacheOptions: Sendable, Hashable {
    package var policy = CachePolicy.standard
    /// Replaces the URL in the cache's key.
    package var key: String?
    /// As `max-age` and `max-stale` of a request.
    package var (maxAge, maxStaleness): (Duration?, Duration?)
    /// Whether the cache itself sends the request, to update a stored response.
    package var isRefresh = false

    package init() {}

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

/// How the cache of a manager has handled a request, with the parameters of `Cache-Status` (RFC 9211).
///
/// ```swift
/// let response = try await manager.send(request)
/// print(response.metrics?.cache?.description ?? "no cache")  // convoy; hit; ttl=42
/// ```
public struct CacheStatus: Sendable, Hashable, CustomStringConvertible {
    /// Why a request went to the network (RFC 9211, section 2.2).
    public enum Forward: String, Sendable, Hashable {
        /// The cache was disabled for the request.
        case bypass
        /// A request with this method is never answered from the cache.
        case method
        /// No response is stored for the URL.
        case uriMiss = "uri-miss"
        /// The stored responses of the URL are for other header fields.
        case varyMiss = "vary-miss"
        /// No stored response could be used.
        case miss
        /// The request did not accept the stored response without validation.
        case request
        /// The stored response is stale.
        case stale
        /// Only a part of the requested bytes is stored.
        case partial
    }

    /// Why the request went to the network; nil for a hit.
    public var forward: Forward?
    /// The status code of the server, if the status code of the response differs.
    public var forwardStatus: Int?
    /// How many seconds the response stays fresh; negative for a stale one, nil if unknown.
    public var timeToLive: Int?
    /// Whether the cache has stored the response.
    public var isStored = false
    /// The `detail` parameter: one word with information that the other parameters do not give.
    public var detail: String?

    /// Makes the status of a hit; ``forward`` describes a request that went to the network.
    public init() {}

    /// Whether the response came from the cache without a request.
    public var isHit: Bool { forward == nil }

    /// The value of the `Cache-Status` field, with `convoy` as the name of the cache.
    public var description: String {
        var text = "convoy"
        if let forward { text += "; fwd=\(forward.rawValue)" } else { text += "; hit" }
        if let forwardStatus { text += "; fwd-status=\(forwardStatus)" }
        if let timeToLive { text += "; ttl=\(timeToLive)" }
        if isStored, forward != nil { text += "; stored" }
        if let detail { text += "; detail=\(detail)" }
        return text
    }
}
