// How a cache has handled a request: the Cache-Status field, RFC 9211.
import Foundation

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

    /// Makes the status of a hit.
    ///
    /// Set ``forward`` to describe a request that went to the network.
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
