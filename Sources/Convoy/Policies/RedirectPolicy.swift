// How redirects are followed.
import Foundation

/// How redirects are followed: how many, whether from https to http, and what may refuse one.
///
/// Followed are 301, 302, 303, 307 and 308 with one usable `Location`; any other 3xx is the answer. 303, and 301 or 302
/// to a POST, turn the request into a GET without a body; 307 and 308 send the same body again (RFC 9110, section
/// 15.4). `Authorization`, `Cookie`, `Proxy-Authorization` and fields marked as secret never go to another scheme, host
/// or port.
///
/// ```swift
/// let policy = RedirectPolicy(maxCount: 5) { hop in
///     hop.to.url.host() == hop.from.url.host() ? .follow : .refuse
/// }
/// ```
///
/// Too many redirects fail with `.tooManyRedirects`, also to a place that was asked before: a server may have counted. A
/// redirect to another scheme than http and https, to a host that cannot be asked, or from https to http fails with
/// `.redirectRefused`. One without a usable `Location`, or with one above 16 KiB, is the answer; where its status is not
/// acceptable, the error says what is wrong with it. Of a redirect that is followed the body does not matter, whole or cut.
///
/// ## Concurrency
/// `Sendable`; the hook is called in the operation's own order, never on a transport's thread and never under a lock.
///
/// ## Topics
/// - ``follow``
/// - ``never``
/// - ``init(maxCount:allowsInsecure:onRedirect:)``
public struct RedirectPolicy: Sendable {
    /// How many redirects one after the other are followed; at 0 none is, and a redirect is the answer.
    public var maxCount: Int
    /// Whether a redirect may lead from https to http, where what is sent can be read and changed on the way.
    public var allowsInsecure: Bool
    /// Asked before a redirect that the policy allows is followed; nil when all of them are.
    public var onRedirect: (@Sendable (Redirect) -> RedirectDecision)?

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - maxCount: how many redirects one after the other are followed; 0 for none.
    ///   - allowsInsecure: whether one may lead from https to http.
    ///   - onRedirect: asked before each redirect that the policy allows; may refuse or change it.
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
    /// None: a redirect is the answer, to be accepted or not by its status code as any other.
    public static let never = RedirectPolicy(maxCount: 0)
}
