// One redirect, and the decisions of a hook.
import Foundation

/// A redirect that the policy allows.
public struct Redirect: Sendable {
    /// The redirect response.
    public let response: ResponseHead
    /// The redirected request, without additions of interceptors.
    public let from: PreparedRequest
    /// The request that will be sent, with its new method, body and fields.
    ///
    /// The request has no credentials if its origin differs from that of `from`.
    public let to: PreparedRequest
    /// The number of the redirect, from 1.
    public let count: Int

    /// Makes a redirect, to test your own hook.
    public init(response: ResponseHead, from: PreparedRequest, to: PreparedRequest, count: Int) {
        self.response = response
        self.from = from
        self.to = to
        self.count = count
    }
}

/// The decision about a redirect.
public enum RedirectDecision: Sendable, Hashable {
    /// Follow the redirect.
    case follow
    /// Reject the redirect.
    ///
    /// The request fails with `.redirectRefused`, and the error's ``RequestError/response`` is the redirect response.
    case refuse
    /// Send another request instead, usually a changed ``Redirect/to``.
    ///
    /// The request is checked again. Added credentials are sent to the origin of ``Redirect/to`` only. They are
    /// removed if the request goes to another origin.
    case rewrite(PreparedRequest)
}

/// What follows a response.
enum RedirectStep: Sendable {
    /// The caller receives the response, because it is not a redirect to follow.
    case stands
    /// Another request follows.
    case follow(PreparedRequest, leavesOrigin: Bool)
    /// The request fails.
    case fail(RequestError)
}
