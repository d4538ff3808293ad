// A record of each attempt, for the response and the error.
import Foundation

/// One attempt of a request (``Response/attempts``), also a redirect, a retry or the request after an authentication
/// challenge: when it began, why it ended, and which step followed.
public struct AttemptRecord: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// The step that followed an attempt.
    public enum Next: Sendable, Hashable {
        /// No step: the result of the attempt is the outcome of the operation.
        case outcome
        /// A redirect was followed.
        case redirect(to: URL)
        /// The request was sent again, after a delay.
        case retry(after: Duration)
        /// An interceptor requested another attempt, for example with a new token.
        case intercepted(after: Duration)
        /// A suspension ended the attempt, because its transport cannot pause or its download can be resumed.
        case suspended
        /// The download could not be resumed, so the complete file was requested.
        case startOver
        /// The process had no free file descriptor. The request was sent again after a delay.
        case awaitedDescriptor
    }

    /// The number of the attempt, from 1.
    public internal(set) var number: Int
    /// The request as sent: after redirects, and with the fields of interceptors and the cookie jar.
    public internal(set) var request: PreparedRequest
    /// When the attempt began, on the continuous clock.
    public var started: ContinuousClock.Instant { startedMoment.instant }
    /// When the attempt ended, on the continuous clock.
    public var ended: ContinuousClock.Instant { endedMoment.instant }
    private let startedMoment: CompactInstant
    private let endedMoment: CompactInstant
    /// The head of the response; nil if no response arrived.
    public internal(set) var response: ResponseHead?
    /// Why the attempt failed; nil for a complete response, whatever its status, and after a suspension.
    public internal(set) var failure: RequestError.Code?
    /// The message of the error that ended the attempt; nil if ``failure`` is nil.
    public internal(set) var message: String?
    /// The step that followed the attempt.
    public internal(set) var next = Next.outcome
    /// The number of body bytes sent and received.
    public internal(set) var transfer: TransferProgress
    /// The transport's measurements; nil if it does not measure, or if a cancellation or suspension ended the attempt.
    public internal(set) var metrics: TransferMetrics?

    init(
        number: Int, request: PreparedRequest, started: ContinuousClock.Instant, ended: ContinuousClock.Instant,
        response: ResponseHead? = nil, failure: RequestError.Code? = nil,
        message: String? = nil, next: Next = .outcome,
        transfer: TransferProgress = TransferProgress(), metrics: TransferMetrics? = nil
    ) {
        self.number = number
        self.request = request
        startedMoment = CompactInstant(started)
        endedMoment = CompactInstant(ended)
        self.response = response
        self.failure = failure
        self.message = message
        self.next = next
        self.transfer = transfer
        // Without a response, the received counts belong to an earlier attempt.
        if response == nil { (self.transfer.download, self.transfer.resumedBytes) = (ByteProgress(), 0) }
        self.metrics = metrics
    }

    /// The URL of the request as sent.
    public var url: URL { request.url }
    /// The method of the request as sent.
    public var method: HTTPMethod { request.method }
    /// The status code; nil if no response arrived, or if the operation was cancelled before the attempt ended.
    public var statusCode: Int? { response?.statusCode }
    /// Whether the response came from the cache, so that no request was sent.
    public var isFromCache: Bool { metrics?.cache?.isHit == true }

    /// One line without credentials: the result, the duration, and the next step.
    public var description: String {
        let what = statusCode.map(String.init) ?? failure?.description ?? "no response"
        let followed = next == .outcome ? "" : ", then \(next)"
        return "\(number): \(request) (\(what) after \(started.duration(to: ended).words))\(followed)".oneLine
    }
    /// A mirror of the description only, because a reflection of the properties would show credentials.
    public var customMirror: Mirror { Mirror(self, children: ["attempt": description]) }
}

extension AttemptRecord.Next: CustomStringConvertible, CustomReflectable {
    /// A text without credentials.
    public var description: String {
        switch self {
        case .outcome: "the outcome"
        case .redirect(let url): "a redirect to \(url.redactedString)"
        case .retry(let delay): "a retry after \(delay.words)"
        case .intercepted(let delay): "another attempt after \(delay.words), as an interceptor asked"
        case .suspended: "suspended"
        case .startOver: "started over"
        case .awaitedDescriptor: "another attempt, with a file descriptor"
        }
    }
    /// A mirror of the description only, because a reflection of the properties would show credentials.
    public var customMirror: Mirror { Mirror(self, children: ["next": description]) }
}

extension [AttemptRecord] {
    var redirects: [URL] { compactMap { if case .redirect(let url) = $0.next { url } else { nil } } }
}

/// The durations of one attempt, from the start of its transfer, and its connection; only libcurl measures them, and of
/// a reused connection ``nameLookup``, ``connect`` and ``secureConnect`` are zero.
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
    /// The TLS version of a new connection, `1.2` or `1.3`, for display; empty without TLS, for a reused connection,
    /// and if libcurl does not report it.
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

    /// How the cache has handled the request, with durations of zero for its responses; nil without a cache.
    public var cache: CacheStatus? {
        get { cacheBox?.value }
        set { cacheBox = newValue.map { CopyOnWrite($0) } }
    }
    /// On the heap, so that metrics without a cache hold only a nil reference.
    private var cacheBox: CopyOnWrite<CacheStatus>?

    /// Makes empty metrics.
    public init() {}
}
