// When a request is sent again, and after which wait.
import Foundation

/// When a request that failed is sent again, how often, and after which wait.
///
/// Only what can be repeated without harm is: methods that are idempotent (RFC 9110, section 9.2.2), and requests with
/// an `Idempotency-Key` that is not empty. The wait before retry *n* is a random part of `baseDelay` doubled *n* - 1
/// times, at most `maxDelay`, so that clients that failed together do not come back together (full jitter; tests take the
/// randomness out by a constant `RequestManager.Configuration.jitter`). Where the answer has a
/// `Retry-After`, that time comes first, up to ``maxRetryAfter``.
///
/// ```swift
/// var policy = RetryPolicy.standard
/// policy.maxRetries = 5
/// policy.statusCodes.remove(500)
/// let report = Request<Data>.get("https://example.com/report")
/// let request = report.retries(policy)
/// ```
///
/// A host whose name has no address is asked for once more only.
///
/// Never repeated, whatever the lists say: what was cancelled, ran out of its deadline, failed in TLS or in decoding,
/// and every other failure that is not ``RequestError/isRetryable``, status codes aside.
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
    /// How many attempts there may be after the first; 3 by default.
    public var maxRetries: Int
    /// What the first wait is a part of; half a second by default.
    public var baseDelay: Duration
    /// What the longest wait is a part of; 30 seconds by default.
    public var maxDelay: Duration
    /// The status codes that are worth another attempt where the request's own check does not accept them.
    public var statusCodes: Set<Int> = [408, 425, 429, 500, 502, 503, 504]
    /// The failures that are worth another attempt: `.timedOut`, `.connectionFailed` and `.connectionLost` by default.
    public var errorCodes = Self.retryableCodes
    /// Whether a request is sent again too that the server may have carried out already: a POST is then done twice.
    public var retriesNonIdempotent = false
    /// The longest `Retry-After` that is kept to; one that is longer is cut to this; five minutes by default.
    public var maxRetryAfter = Duration.seconds(300)
    /// Which requests a `Retry-After` is for; the one that was answered with it by default.
    public var retryAfterScope = RetryAfterScope.request

    /// Which requests wait when an answer asks for a time (`Retry-After`).
    public enum RetryAfterScope: Sendable, Hashable {
        /// The one that was answered: a status code says nothing of other URLs.
        case request
        /// Every request of the manager to that host, scheme and port included, that has not been sent yet.
        ///
        /// For servers that count all requests together; the request that was answered need not be one that is repeated, and
        /// ``RequestManager/why(_:)`` of each that waits names it. One whose deadline ends before the host may be asked again ends at
        /// once with `.deadlineExceeded`, whose message names the answer that asked.
        case host
    }

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - maxRetries: how many attempts there may be after the first.
    ///   - baseDelay: what the first wait is a part of.
    ///   - maxDelay: what the longest wait is a part of.
    public init(
        maxRetries: Int = 3, baseDelay: Duration = .milliseconds(500), maxDelay: Duration = .seconds(30)
    ) {
        self.maxRetries = maxRetries
        self.baseDelay = baseDelay
        self.maxDelay = maxDelay
    }

    /// No retry.
    public static let never = RetryPolicy(maxRetries: 0)
    /// Three retries, after up to half a second, a second and two.
    public static let standard = RetryPolicy()

    private static let retryableCodes = Set(RequestError.Code.all.filter { $0.facts.contains(.retryable) })

    /// Whether a request that failed is sent again.
    ///
    /// - Parameter retries: how many retries it has had.
    func permits(_ error: RequestError, of request: PreparedRequest, retries: Int) -> Bool {
        guard retries < maxRetries, retriesNonIdempotent || request.isIdempotent else { return false }
        if error.code == .unacceptableStatus {
            return error.response.map { statusCodes.contains($0.statusCode) } ?? false
        }
        // A name without an address seldom gets one within seconds.
        if error.isOfUnknownHost, retries > 0 { return false }
        return error.isRetryable && errorCodes.contains(error.code) && !error.code.facts.contains(.final)
    }

    /// The wait before a retry: exponential, with full jitter.
    ///
    /// - Parameters:
    ///   - n: the number of the retry, from 1.
    ///   - unit: a random number from 0 up to 1.
    /// - Complexity: O(1): at most about a hundred doublings.
    package func delay(beforeRetry n: Int, unit: Double) -> Duration {
        // A century: nothing that is reckoned with the wait overflows.
        let longest = max(.zero, min(maxDelay, .seconds(3_155_760_000 as Int64)))
        var ceiling = max(.zero, min(baseDelay, longest))
        var count = 1
        while n > count, ceiling < longest, ceiling != .zero {
            ceiling = min(ceiling + ceiling, longest)
            count += 1
        }
        // Rounding must not lead beyond the longest wait, nor what is no number (zero, in this order) trap.
        return min(ceiling * min(max(0, unit), 1), longest)
    }

    /// How long the server asks to be left alone, cut to ``maxRetryAfter``; nil when it does not ask.
    package func retryAfter(in head: ResponseHead, now: Date) -> Duration? {
        head.retryAfter(now: now).map { max(.zero, min($0, maxRetryAfter)) }
    }
}

extension RequestError {
    /// Whether the name of the host has no address; transports say so by the error beneath.
    fileprivate var isOfUnknownHost: Bool {
        if let error = underlying as? URLError { return [.cannotFindHost, .dnsLookupFailed].contains(error.code) }
        #if canImport(CLibcurl)
            if let error = underlying as? CurlError { return error.code == 6 }
        #endif
        return false
    }
}
