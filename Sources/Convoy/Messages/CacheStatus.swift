// How a cache has dealt with a request: the Cache-Status field, RFC 9211.
import Foundation

/// How the cache of a manager has dealt with a request: the parameters of `Cache-Status` (RFC 9211).
///
/// ```swift
/// let response = try await manager.send(request)
/// print(response.metrics?.cache?.description ?? "no cache")  // convoy; hit; ttl=42
/// ```
public struct CacheStatus: Sendable, Hashable, CustomStringConvertible {
    /// Why a request went to the network (RFC 9211, section 2.2).
    public enum Forward: String, Sendable, Hashable {
        /// The cache was not to deal with the request.
        case bypass
        /// The method is none that is answered from the cache.
        case method
        /// Nothing is stored for the URL.
        case uriMiss = "uri-miss"
        /// The stored responses of the URL are for other header fields.
        case varyMiss = "vary-miss"
        /// Nothing that is stored could be used.
        case miss
        /// The request did not want what is stored as it is.
        case request
        /// The stored response is stale.
        case stale
        /// A part is stored, and another is missing.
        case partial
    }

    /// Why the request went to the network; nil for a hit.
    public var forward: Forward?
    /// The status code that the server answered with, where that is another than the response's.
    public var forwardStatus: Int?
    /// How many seconds the response is still fresh; negative for a stale one, nil where that is not known.
    public var timeToLive: Int?
    /// Whether the response is stored now.
    public var isStored = false
    /// More about it, in one word.
    public var detail: String?

    /// Makes the status of a hit; ``forward`` makes it one of another kind.
    public init() {}

    /// Whether the response came from the cache without a request.
    public var isHit: Bool { forward == nil }

    /// The field's value, with `convoy` for the name of the cache.
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
