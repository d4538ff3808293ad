// User code around each attempt.
import Foundation

/// Changes requests before they are sent, and inspects the result of each attempt.
///
/// Use it for signatures, tokens and your own retries. A manager's interceptors are called first, in their order, then
/// the request's own. Each is called for every attempt, including redirects and retries. It receives the request as the
/// library would send it, without additions that interceptors made for the previous attempt.
///
/// ```swift
/// struct Signing: RequestInterceptor {
///     func adapt(
///         _ request: PreparedRequest, for attempt: AttemptContext
///     ) async throws -> PreparedRequest {
///         var request = request
///         request.headerFields["X-Signature"] = try await sign(request.url)
///         return request
///     }
/// }
/// ```
///
/// ## Concurrency
/// `adapt` and `decide` run in a task of the attempt, which is cancelled with the operation. While it runs, the
/// operation occupies no slot, so an interceptor may send requests through the same manager. Use
/// ``Request/withoutInterceptors()`` for them: a token refresh, for example, would wait for its own token. In your own
/// operation queue the operation counts as executing meanwhile. If that queue has a limit, an interceptor must send its
/// requests with another manager, because all places may be taken by operations that wait for their interceptors.
public protocol RequestInterceptor: Sendable {
    /// Changes a request before an attempt; added credentials are removed once a redirect has led to another origin.
    ///
    /// - Throws: an error that fails the operation: a ``RequestError`` unchanged, any other as `.interceptorFailed`.
    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest

    /// Whether an adapted request is still valid; asked without a lock, directly before the request is sent.
    ///
    /// If false, for example because a token was refreshed while the request waited for its slot, the request is
    /// adapted again, at most ten times for an operation. The method must return quickly: it may run on the thread that
    /// resumes an operation.
    func isCurrent(_ request: PreparedRequest) -> Bool

    /// Inspects the end of an attempt; the first decision other than `.proceed` applies.
    ///
    /// - Throws: an error that fails the operation, as for ``adapt(_:for:)``.
    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision
}

extension RequestInterceptor {
    /// By default the request is not changed.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        request
    }
    /// By default an adapted request stays valid.
    public func isCurrent(_ request: PreparedRequest) -> Bool { true }
    /// By default the policies decide about redirects and retries.
    public func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        .proceed
    }
}

/// Describes an attempt of a request.
public struct AttemptContext: Sendable {
    /// The number of the attempt, from 1; for a job of a durable queue, it continues across starts of the program.
    public let number: Int
    /// The request as given by the caller, before redirects and interceptors.
    public let originalRequest: PreparedRequest
    /// Whether a redirect, or a link to the next result page, has led to another origin: do not add credentials then.
    public let hasLeftOrigin: Bool
    /// Whether the request goes to a mirror at another origin: only add credentials that are meant for the mirror.
    public internal(set) var isMirror = false
    /// The records of the previous attempts.
    public let earlierAttempts: [AttemptRecord]
}

/// The result of an attempt.
public struct AttemptEnd: Sendable {
    /// The request as sent, including additions of interceptors.
    public let request: PreparedRequest
    /// Status and header fields of the response; nil if no response arrived.
    public let response: ResponseHead?
    /// Why the attempt failed, with ``RequestError/body`` after an unacceptable status; nil after an acceptable one.
    public let error: RequestError?
    /// Whether the response is a redirect that the policy follows, if no interceptor decides otherwise.
    package internal(set) var isRedirect = false
}

/// The decision of an interceptor after an attempt.
public enum InterceptorDecision: Sendable, Hashable {
    /// No decision: the next interceptor decides, then the policies.
    case proceed
    /// Another attempt; after ten for an operation, the response or the failure is the outcome.
    case retry(after: Duration)
    /// No other attempt: the response or the failure is the outcome.
    case stop
}
