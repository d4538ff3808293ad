// Code of the user's around each attempt.
import Foundation

/// Changes requests before they are sent, and looks at what came of each: signing, tokens, retries of your own.
///
/// A manager's interceptors are asked first, in their order, then the request's own. Each is asked for every attempt: for
/// redirects and retries too, with the request as the library would send it, free of what interceptors added to the
/// attempt before.
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
/// `adapt` and `decide` run in a task of the attempt, which is cancelled with its operation; what they return then is
/// dropped. While they are at work the operation holds no slot, so that they may send requests of their own through the
/// same manager; give those ``Request/withoutInterceptors()``, or they wait for themselves. On a queue of your own it keeps
/// its place, though: a queue that takes one operation at a time has no room for the other.
public protocol RequestInterceptor: Sendable {
    /// Changes a request before an attempt.
    ///
    /// Credentials that are added (any field that ``HeaderFields/Field/isSecret``) are taken away again once a redirect has
    /// led to another origin.
    ///
    /// - Throws: what ends the operation: a ``RequestError`` as it is, anything else as `.interceptorFailed`.
    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest

    /// Whether an adapted request is still good to be sent; asked without a lock right before it is. After false it is
    /// adapted again.
    ///
    /// A token may have been refreshed while the request waited for its slot. Must be quick: this may be the thread that
    /// resumes an operation.
    func isCurrent(_ request: PreparedRequest) -> Bool

    /// Looks at the end of an attempt: the first interceptor that asks for something gets it.
    ///
    /// - Throws: what ends the operation, as for ``adapt(_:for:)``.
    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision
}

extension RequestInterceptor {
    /// By default the request stays as it is.
    public func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        request
    }
    /// By default an adapted request stays good.
    public func isCurrent(_ request: PreparedRequest) -> Bool { true }
    /// By default redirects and retries are left to the policies.
    public func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        .proceed
    }
}

/// Which attempt of which request.
public struct AttemptContext: Sendable {
    /// The number of the attempt, from 1; that of a job of a durable queue counts across starts.
    public let number: Int
    /// The request as the caller gave it, before redirects and interceptors.
    public let originalRequest: PreparedRequest
    /// Whether a redirect has led to another origin, now or earlier: credentials are out of place from then on.
    public let hasLeftOrigin: Bool
    /// Whether the request goes to a mirror at another origin than that of its download: only credentials that were meant for
    /// the mirror by name are in place there.
    public internal(set) var isMirror = false
    /// What became of the attempts before.
    public let earlierAttempts: [AttemptRecord]
}

/// What came of an attempt.
public struct AttemptEnd: Sendable {
    /// The request as it was sent, what interceptors added included.
    public let request: PreparedRequest
    /// Status and header fields of the answer; nil when there was none.
    public let response: ResponseHead?
    /// Why the attempt failed; nil when it brought an acceptable answer.
    ///
    /// Of an answer with an unacceptable status, its ``RequestError/body`` has the first 64 KiB, or as much as a body may
    /// have where refusals are decoded.
    public let error: RequestError?
}

/// What an interceptor wants after an attempt.
public enum InterceptorDecision: Sendable, Hashable {
    /// Nothing: ask the next one, then the policies.
    case proceed
    /// Another attempt; at most ten an operation, after which the answer stands as it is.
    case retry(after: Duration)
    /// No other attempt: the answer or the failure stands.
    case stop
}
