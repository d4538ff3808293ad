// When a request is sent again, and after which wait.
import Foundation

/// When a failed request is sent again, how often, and after which wait; a manager retries nothing by default.
///
/// A policy by default retries only requests that are safe to repeat: those with an idempotent method (RFC 9110,
/// section 9.2.2) or a non-empty `Idempotency-Key`, and any other, such as a POST, if no server has processed it: no
/// connection was made, or the response is a 408. The wait is a random part of `baseDelay`, doubled for each earlier
/// retry, at most `maxDelay`: this full jitter (`RequestManager.Configuration.jitter`) spreads clients that failed at
/// the same time. A `Retry-After` of the response is added; one beyond ``maxRetryAfter`` ends the retries.
///
/// ```swift
/// var policy = RetryPolicy.standard
/// policy.maxRetries = 5
/// policy.statusCodes.remove(500)
/// let report = Request<Data>.get("https://example.com/report")
/// let request = report.retries(policy)
/// ```
///
/// If a host name has no address, the request is retried only once. Cancellations, exceeded deadlines, failures in TLS
/// or decoding, and any other that is not ``RequestError/isRetryable``, except status codes, are never retried, even if
/// `errorCodes` includes them.
///
/// ## Concurrency
/// `Sendable`, without shared state.
///
/// ## Topics
/// - ``never``
/// - ``standard``
/// - ``statusCodes``
/// - ``errorCodes``
/// - ``retryAfterScope``
public struct RetryPolicy: Sendable, Hashable {
    /// The maximum number of attempts after the first, or after a download's last that made progress; 3 by default.
    public var maxRetries: Int
    /// The upper limit of the first wait; half a second by default.
    public var baseDelay: Duration
    /// The upper limit of any wait, to which a `Retry-After` is added; 30 seconds by default.
    public var maxDelay: Duration
    /// The status codes that lead to a retry, unless the request accepts them.
    public var statusCodes: Set<Int> = [408, 425, 429, 500, 502, 503, 504]
    /// The error codes that lead to a retry: by default `.timedOut`, `.connectionFailed`, `.connectionLost` and, if the
    /// proxy was not reached, `.proxyFailed`.
    public var errorCodes = Self.retryableCodes
    /// Whether non-idempotent requests are retried too, so that a POST may take effect twice.
    public var retriesNonIdempotent = false
    /// The longest `Retry-After` that a request waits for, or that holds a host; five minutes by default, and a longer
    /// one ends the retries.
    public var maxRetryAfter = Duration.seconds(300)
    /// The requests that a `Retry-After` applies to; by default only the request that received it.
    public var retryAfterScope = RetryAfterScope.request

    /// The requests that wait for a `Retry-After`.
    public enum RetryAfterScope: Sendable, Hashable {
        /// Only the request that received the response: a status code says nothing about other URLs.
        case request
        /// Every unsent request of the manager to the same scheme, host and port.
        ///
        /// Use this scope for servers that count all requests together. The wait applies even if the request that
        /// received the response, which ``RequestManager/why(_:)`` names, is not retried. A request whose deadline is
        /// earlier than the end of the wait fails at once with `.deadlineExceeded`.
        case host
    }

    /// Makes a policy of the properties with these names; the others are variables.
    public init(
        maxRetries: Int = 3, baseDelay: Duration = .milliseconds(500), maxDelay: Duration = .seconds(30)
    ) { (self.maxRetries, self.baseDelay, self.maxDelay) = (maxRetries, baseDelay, maxDelay) }

    /// No retry.
    public static let never = RetryPolicy(maxRetries: 0)
    /// Three retries, after at most half a second, one second and two.
    public static let standard = RetryPolicy()

    private static let retryableCodes =
        Set(RequestError.Code.all.filter { $0.facts.contains(.retryable) }).union([.proxyFailed])

    func permits(_ error: RequestError, of request: PreparedRequest, retries: Int) -> Bool {
        guard retries < maxRetries, retriesNonIdempotent || request.isIdempotent || error.isBeforeProcessing,
            // A name without an address rarely gets one within seconds.
            retries == 0 || !error.isOfUnknownHost
        else { return false }
        if error.code == .unacceptableStatus { return statusCodes.contains(error.response?.statusCode ?? 0) }
        return error.isRetryable && errorCodes.contains(error.code) && !error.code.facts.contains(.final)
    }

    /// Exponential, with full jitter; `n` counts from 1, and `unit` is a random number from 0 to 1.
    package func delay(beforeRetry n: Int, unit: Double) -> Duration {
        // The limit is a century, so that no later sum overflows.
        let longest = max(.zero, min(maxDelay, .seconds(3_155_760_000 as Int64)))
        var ceiling = max(.zero, min(baseDelay, longest))
        // Any wait has grown to a century after 128 doublings.
        for _ in 1..<max(1, min(n, 128)) { ceiling = min(ceiling + ceiling, longest) }
        // Rounding must not exceed the longest wait, and NaN must not trap: with 0 as its first argument, `max` returns
        // 0 for NaN.
        return min(ceiling * min(max(0, unit), 1), longest)
    }

    /// The wait that the server requests, limited to ``maxRetryAfter``; nil if the server requests none.
    package func retryAfter(in head: ResponseHead, now: Date) -> Duration? {
        head.retryAfter(now: now).map { max(.zero, min($0, maxRetryAfter)) }
    }
}

extension RequestError {
    /// With 408 the server did not receive all of the request in time (RFC 9110, section 15.5.9).
    fileprivate var isBeforeProcessing: Bool {
        isUnconnected || code == .unacceptableStatus && response?.statusCode == 408
    }

    /// Transports report a `.proxyFailed` that is retryable only for a request that was not sent.
    var isUnconnected: Bool { code == .connectionFailed || code == .proxyFailed && isRetryable }

    /// Transports report this cause in the underlying error.
    fileprivate var isOfUnknownHost: Bool {
        if let error = underlying as? URLError { return [.cannotFindHost, .dnsLookupFailed].contains(error.code) }
        #if canImport(CLibcurl)
            if let error = underlying as? CurlError { return [5, 6].contains(error.code) }
        #endif
        return false
    }
}
