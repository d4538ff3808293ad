// The transport's measurements of one attempt.
import Foundation

/// The durations of one attempt, and its connection.
///
/// The transport measures the durations. Each duration counts from the start of the attempt's transfer. For a reused
/// connection, ``nameLookup``, ``connect`` and ``secureConnect`` are zero.
///
/// libcurl reports all properties. The URLSession transport reports none, so its responses have no metrics.
public struct TransferMetrics: Sendable, Hashable {
    /// The time until the host name was resolved.
    public var nameLookup = Duration.zero
    /// The time until the TCP connection to the server or its proxy was established.
    public var connect = Duration.zero
    /// The time until the TLS handshake was complete; zero without TLS.
    public var secureConnect = Duration.zero
    /// The time until the first byte of the response.
    public var firstByte = Duration.zero
    /// The time until the last byte.
    public var total = Duration.zero
    /// Whether an existing connection was reused.
    public var isReusedConnection = false
    /// The HTTP version of the response: `1.0`, `1.1`, `2` or `3`.
    public var httpVersion = ""
    /// The TLS version of a new connection, `1.2` or `1.3`.
    ///
    /// The text is empty without TLS, for a reused connection, and if the transport does not report the version. The
    /// text comes from libcurl, for display only. With some TLS libraries, libcurl reports no version.
    public var tlsVersion = ""
    /// The TLS library's name of the cipher suite; empty if ``tlsVersion`` is empty.
    public var tlsCipher = ""
    /// The numeric address of the peer; with a proxy, the proxy's.
    public var remoteAddress = ""
    /// The port of the peer.
    public var remotePort = 0
    /// The number of header bytes received, including interim responses.
    public var receivedHeaderBytes: Int64 = 0
    /// The number of request header bytes sent.
    public var sentHeaderBytes: Int64 = 0

    /// How the cache has handled the request; nil without a cache.
    ///
    /// For a response from the cache the durations are zero.
    public var cache: CacheStatus? {
        get { cacheBox?.status }
        set { cacheBox = newValue.map { CacheStatusBox($0) } }
    }
    private var cacheBox: CacheStatusBox?

    /// Makes empty metrics.
    public init() {}
}

/// Holds the cache status on the heap.
///
/// If no cache took part, the metrics hold only a nil reference.
private final class CacheStatusBox: Sendable, Hashable {
    let status: CacheStatus

    init(_ status: CacheStatus) { self.status = status }

    static func == (left: CacheStatusBox, right: CacheStatusBox) -> Bool { left.status == right.status }
    func hash(into hasher: inout Hasher) { hasher.combine(status) }
}
