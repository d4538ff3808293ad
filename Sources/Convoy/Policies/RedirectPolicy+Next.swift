// The decision about one redirect.
import Foundation

extension RedirectPolicy {
    /// Whether an answer is followed, or refused with an error, rather than delivered.
    ///
    /// Asked when the head arrives, to know what the body is for; ``next(after:of:earlier:)`` agrees.
    ///
    /// - Thread: the transport's; no code of the user's is called.
    func leads(_ head: ResponseHead, of request: PreparedRequest) -> Bool {
        maxCount > 0 && (try? RedirectTarget(head, of: request)) != nil
    }

    /// Why an answer that is a redirect is not followed and stands, for people; nil where there is nothing to say of it.
    func defect(of head: ResponseHead, of request: PreparedRequest) -> String? {
        guard maxCount > 0 else { return nil }
        do throws(RedirectTarget.Defect) {
            _ = try RedirectTarget(head, of: request)
            return nil
        } catch {
            return error.reason
        }
    }

    /// What follows an answer: itself, another request, or a failure.
    ///
    /// - Parameters:
    ///   - request: what was sent, without what must not be sent again elsewhere: additions of interceptors, cookies of
    ///     a jar.
    ///   - earlier: the attempts that ended before this one, oldest first; those that did not end in a redirect do not
    ///     count.
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
            // Its URL may have been set since its origin was noted.
            try from.check()
            let proposed = try propose(target, after: head, of: from)
            let next = try ask(Redirect(response: head, from: from, to: proposed, count: trail.count))
            // The hook may have given it another.
            if let body = next.body, !body.canRepeat, body == from.body {
                throw RequestError(
                    .bodyNotReplayable,
                    "the server redirects to \(next.url.shortened) and wants the body there, which comes from a stream "
                        + "that gives it only once")
            }
            return .follow(next, leavesOrigin: next.hostKey != from.hostKey)
        } catch {
            return .fail(error.with(nil, response: head))
        }
    }

    /// The request that a redirect asks for, if it may be sent.
    private func propose(
        _ target: RedirectTarget, after head: ResponseHead, of from: PreparedRequest
    ) throws(RequestError) -> PreparedRequest {
        guard target.isWeb else {
            throw RequestError(
                .redirectRefused,
                "the server redirects (\(head.statusCode)) to \(target.url.shortened), and only http and https are "
                    + "followed")
        }
        let proposed: PreparedRequest
        do { proposed = try from.redirected(to: target.url, statusCode: head.statusCode) } catch {
            throw .redirected(to: target.url, error)
        }
        try allow(proposed, after: from)
        return proposed
    }

    /// What the hook makes of it.
    private func ask(_ redirect: Redirect) throws(RequestError) -> PreparedRequest {
        switch onRedirect?(redirect) {
        case .follow, nil: return redirect.to
        case .refuse:
            throw RequestError(.redirectRefused, "onRedirect refused the redirect to \(redirect.to.url.shortened)")
        case .rewrite(var rewritten):
            try rewritten.check()
            // Secrets were put in for where the hop was seen to lead, and for nowhere else.
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
    /// Nothing can be sent where a server redirects to: it is at fault, and not the request.
    fileprivate static func redirected(to url: URL, _ reason: RequestError) -> RequestError {
        RequestError(
            .redirectRefused, "the server redirects to \(url.shortened), and no request can go there",
            underlying: reason.underlying ?? reason)
    }

    /// The same error; what a transport does not take, because a server has redirected there, is the server's fault.
    ///
    /// - Parameters:
    ///   - request: what was to be sent.
    ///   - earlier: the attempt before it.
    func blamed(on earlier: AttemptRecord?, for request: PreparedRequest) -> RequestError {
        // A hook that sends it elsewhere answers for that itself.
        guard code == .invalidRequest, let earlier, let head = earlier.response,
            case .redirect(to: request.url) = earlier.next,
            (try? RedirectTarget(head, of: earlier.request))?.url == request.url
        else { return self }
        return .redirected(to: request.url, self).with(response: head)
    }
}
