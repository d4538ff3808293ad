// What a transport measured of one attempt.
import Foundation

/// Where the time of one attempt went, and over which connection.
///
/// Measured by the transport that moved the bytes. Each duration counts from the start of the attempt's transfer, so that
/// each is at least the one before; of a connection that was used before, the first three are zero.
///
/// libcurl tells everything here; URLSession on Linux tells nothing, and its responses have no metrics.
public struct TransferMetrics: Sendable, Hashable {
    /// Until the host's name had been resolved.
    public var nameLookup = Duration.zero
    /// Until the TCP connection, to the server or to its proxy, was there.
    public var connect = Duration.zero
    /// Until the TLS handshake was done; zero without TLS.
    public var secureConnect = Duration.zero
    /// Until the first byte of the answer.
    public var firstByte = Duration.zero
    /// Until the last byte.
    public var total = Duration.zero
    /// Whether an open connection was used again.
    public var isReusedConnection = false
    /// The version the server answered with: `1.0`, `1.1`, `2` or `3`.
    public var httpVersion = ""
    /// The version of TLS that a new connection has agreed on, `1.2` or `1.3`; empty without TLS, of a connection that was
    /// used before, and where the transport does not tell.
    ///
    /// As libcurl says it, for people: with some TLS libraries it does not.
    public var tlsVersion = ""
    /// The cipher suite of the same connection, as the TLS library calls it; empty where ``tlsVersion`` is.
    public var tlsCipher = ""
    /// The numeric address of the peer, a proxy's if there is one.
    public var remoteAddress = ""
    /// Its port.
    public var remotePort = 0
    /// Bytes of header received, interim responses included.
    public var receivedHeaderBytes: Int64 = 0
    /// Bytes of request header sent.
    public var sentHeaderBytes: Int64 = 0

    /// How the cache has dealt with the request; nil without a cache.
    ///
    /// Of a response that came from the cache the times are zero.
    public var cache: CacheStatus? {
        get { cacheBox?.status }
        set { cacheBox = newValue.map { CacheStatusBox($0) } }
    }
    private var cacheBox: CacheStatusBox?

    /// Makes metrics of nothing.
    public init() {}
}

/// Boxed: without a cache metrics are no larger than a reference for it.
private final class CacheStatusBox: Sendable, Hashable {
    let status: CacheStatus

    init(_ status: CacheStatus) { self.status = status }

    static func == (left: CacheStatusBox, right: CacheStatusBox) -> Bool { left.status == right.status }
    func hash(into hasher: inout Hasher) { hasher.combine(status) }
}
