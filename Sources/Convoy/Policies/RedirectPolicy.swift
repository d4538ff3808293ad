// How redirects are followed.
import Foundation

/// How redirects are followed: how many, whether from https to http, and which hook may change or reject a redirect.
///
/// The policy follows 301, 302, 303, 307 and 308 with one usable `Location`. Any other 3xx is the final response. A
/// 303 turns any method but GET and HEAD into a GET without a body. A 301 or 302 turns a POST into a GET without a
/// body. A 307 or 308 sends the same body again (RFC 9110, section 15.4). `Authorization`, `Cookie`,
/// `Proxy-Authorization` and fields marked as secret are never sent to another scheme, host or port.
///
/// ```swift
/// let policy = RedirectPolicy(maxCount: 5) { hop in
///     hop.to.url.host() == hop.from.url.host() ? .follow : .refuse
/// }
/// ```
///
/// Too many redirects fail with `.tooManyRedirects`. A repeated URL is followed up to that limit, because a server may
/// count requests. A redirect to another scheme than http and https, to a URL that the transport rejects, or from https
/// to http fails with `.redirectRefused`. A redirect without a usable `Location`, for example with an invalid host or
/// above 16 KiB, is the response. If its status is not acceptable, the error describes the defect of the `Location`.
/// The body of a followed redirect is ignored, even if the body is incomplete.
///
/// ## Concurrency
/// `Sendable`. The hook is called on the operation's serial executor, never on a transport's thread or under a lock.
///
/// ## Topics
/// - ``follow``
/// - ``never``
/// - ``init(maxCount:allowsInsecure:onRedirect:)``
public struct RedirectPolicy: Sendable {
    /// The maximum number of redirects that are followed for one request.
    ///
    /// With 0, the caller receives a redirect as the response.
    public var maxCount: Int
    /// Whether a redirect may lead from https to http, where third parties can read and change the request.
    public var allowsInsecure: Bool
    /// A hook that is called before each redirect that the policy allows; nil to follow all of them.
    public var onRedirect: (@Sendable (Redirect) -> RedirectDecision)?

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - maxCount: the maximum number of redirects that are followed for one request; 0 for none.
    ///   - allowsInsecure: whether a redirect may lead from https to http.
    ///   - onRedirect: called before each redirect that the policy allows; may reject or change the redirect.
    public init(
        maxCount: Int = 20, allowsInsecure: Bool = false,
        onRedirect: (@Sendable (Redirect) -> RedirectDecision)? = nil
    ) {
        self.maxCount = maxCount
        self.allowsInsecure = allowsInsecure
        self.onRedirect = onRedirect
    }

    /// Up to 20 redirects, never from https to http.
    public static let follow = RedirectPolicy()
    /// Follows no redirects.
    ///
    /// A redirect is the response, accepted or not by its status code.
    public static let never = RedirectPolicy(maxCount: 0)
}
