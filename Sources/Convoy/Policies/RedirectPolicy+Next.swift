// The decision about one redirect.
import Foundation

extension RedirectPolicy {
    /// Whether a response is followed or fails the request, instead of being delivered.
    ///
    /// The operation calls this method when the head arrives, to decide whether the body is needed.
    /// ``next(after:of:earlier:)`` makes the same decision.
    ///
    /// - Thread: the transport's; no user code is called.
    func leads(_ head: ResponseHead, of request: PreparedRequest) -> Bool {
        maxCount > 0 && (try? RedirectTarget(head, of: request)) != nil
    }

    /// Why a redirect is not followed and becomes the response, as a text.
    ///
    /// The text is nil if the response is not a redirect or can be followed, or if the policy follows no redirect.
    func defect(of head: ResponseHead, of request: PreparedRequest) -> String? {
        guard maxCount > 0 else { return nil }
        do throws(RedirectTarget.Defect) {
            _ = try RedirectTarget(head, of: request)
            return nil
        } catch {
            return error.reason
        }
    }

    /// Decides what follows a response: its delivery to the caller, another request, or a failure.
    ///
    /// - Parameters:
    ///   - request: the request, without additions that must not be sent elsewhere (from interceptors or a cookie
    ///     jar).
    ///   - earlier: the attempts before this one, oldest first. Only those that ended in a redirect count.
    /// - Thread: the operation's; the hook is called.
    func next(after head: ResponseHead, of request: PreparedRequest, earlier: [AttemptRecord]) -> RedirectStep {
        guard maxCount > 0, let target = try? RedirectTarget(head, of: request) else { return .stands }
        let trail = RedirectTrail(earlier: earlier, request: request, statusCode: head.statusCode)
        do throws(RequestError) {
            guard trail.count <= maxCount else {
                throw RequestError(
                    .tooManyRedirects,
                    "more than \(maxCount) redirects, the limit: \(trail), to \(target.url.shortened)")
            }
            var from = request
            // A hook may have changed the URL of the request. `check` computes its origin again.
            try from.check()
            let proposed = try propose(target, after: head, of: from)
            let next = try ask(Redirect(response: head, from: from, to: proposed, count: trail.count))
            // A body that the hook has set was never sent, so it need not be repeatable.
            if let body = next.body, !body.canRepeat, body == from.body {
                throw RequestError(
                    .bodyNotReplayable,
                    "the server redirects to \(next.url.shortened) and requires the body there, which comes from a stream "
                        + "that can be read only once")
            }
            return .follow(next, leavesOrigin: next.hostKey != from.hostKey)
        } catch {
            return .fail(error.with(nil, response: head))
        }
    }

    /// Returns the request for a redirect; throws if it may not be sent.
    private func propose(
        _ target: RedirectTarget, after head: ResponseHead, of from: PreparedRequest
    ) throws(RequestError) -> PreparedRequest {
        guard target.isWeb else {
            throw RequestError(
                .redirectRefused,
                "the server redirects (\(head.statusCode)) to \(target.url.shortened), but only http and https are "
                    + "followed")
        }
        let proposed: PreparedRequest
        do { proposed = try from.redirected(to: target.url, statusCode: head.statusCode) } catch {
            throw .redirected(to: target.url, error)
        }
        try allow(proposed, after: from)
        return proposed
    }

    /// Returns the request that the hook allows after a redirect; throws if the hook refuses the redirect.
    private func ask(_ redirect: Redirect) throws(RequestError) -> PreparedRequest {
        switch onRedirect?(redirect) {
        case .follow, nil: return redirect.to
        case .refuse:
            throw RequestError(.redirectRefused, "onRedirect refused the redirect to \(redirect.to.url.shortened)")
        case .rewrite(var rewritten):
            try rewritten.check()
            // The hook added secrets for the origin of the proposed request only.
            if rewritten.hostKey != redirect.to.hostKey { try rewritten.dropWhatIsBoundToItsOrigin() }
            try allow(rewritten, after: redirect.from)
            return rewritten
        }
    }

    private func allow(_ request: PreparedRequest, after from: PreparedRequest) throws(RequestError) {
        guard !allowsInsecure, from.url.scheme?.lowercased() == "https", request.url.scheme?.lowercased() != "https"
        else { return }
        throw RequestError(
            .redirectRefused,
            "the redirect to \(request.url.shortened) leads from https to http, where it can be read and changed on "
                + "the way")
    }
}

extension RequestError {
    /// The error for a redirect to a URL that cannot be requested.
    ///
    /// The error blames the server, not the request.
    fileprivate static func redirected(to url: URL, _ reason: RequestError) -> RequestError {
        RequestError(
            .redirectRefused, "the server redirects to \(url.shortened), and no request can go there",
            underlying: reason.underlying ?? reason)
    }

    /// The same error, or an error that blames the server if the transport rejects the URL of a redirect.
    ///
    /// - Parameters:
    ///   - request: the request that the transport rejected.
    ///   - earlier: the previous attempt.
    func blamed(on earlier: AttemptRecord?, for request: PreparedRequest) -> RequestError {
        // If a hook chose another URL, the server is not to blame for that URL.
        guard code == .invalidRequest, let earlier, let head = earlier.response,
            case .redirect(to: request.url) = earlier.next,
            (try? RedirectTarget(head, of: earlier.request))?.url == request.url
        else { return self }
        return .redirected(to: request.url, self).hiding(SentSecrets(of: [earlier.request])).with(response: head)
    }
}
