// One hop of a redirect, and what a hook may say to it.
import Foundation

/// A redirect that is about to be followed.
public struct Redirect: Sendable {
    /// The answer that redirects.
    public let response: ResponseHead
    /// The request that was answered, without what interceptors added to it.
    public let from: PreparedRequest
    /// The request that will be sent: method, body and fields are those of the hop, and credentials are gone when it
    /// leads to another origin.
    public let to: PreparedRequest
    /// The number of the hop, from 1.
    public let count: Int

    /// Makes a redirect; to test a hook of your own.
    public init(response: ResponseHead, from: PreparedRequest, to: PreparedRequest, count: Int) {
        self.response = response
        self.from = from
        self.to = to
        self.count = count
    }
}

/// What becomes of a redirect.
public enum RedirectDecision: Sendable, Hashable {
    /// It is followed.
    case follow
    /// It is not: the request fails with `.redirectRefused`, and the error's ``RequestError/response`` is the answer
    /// that wanted it.
    case refuse
    /// Another request is sent instead, usually a changed ``Redirect/to``.
    ///
    /// It is checked again. Credentials that are added to it reach the origin of ``Redirect/to``; on the way to any
    /// other origin they are taken away.
    case rewrite(PreparedRequest)
}

/// What follows an answer.
enum RedirectStep: Sendable {
    /// It leads nowhere: it is the answer.
    case stands
    /// Another request is sent.
    case follow(PreparedRequest, leavesOrigin: Bool)
    /// The request fails.
    case fail(RequestError)
}
