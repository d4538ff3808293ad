// The decision about one redirect.
import Foundation

extension RedirectPolicy {
    /// Whether an answer is followed, or refused with an error, rather than delivered.
    ///
    /// Asked when the head arrives, to know what the body is for; ``next(after:of:earlier:)`` agrees.
    ///
    /// - Thread: the transport's; no code of the user's is called.
    func leads(_ head: ResponseHead, of request: PreparedRequest) -> Bool {
        maximumCount > 0 && RedirectTarget(head, of: request) != nil
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
        guard maximumCount > 0, let target = RedirectTarget(head, of: request) else { return .stands }
        let trail = RedirectTrail(earlier: earlier, request: request, statusCode: head.statusCode)
        do throws(RequestError) {
            guard trail.count <= maximumCount else {
                throw RequestError(
                    .tooManyRedirects,
                    "more than \(maximumCount) redirects: \(trail), to \(target.url.shortened); "
                        + "RedirectPolicy.maximumCount is the limit"
                )
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
            // Who sends other fields now, a new cookie perhaps, may well be answered otherwise.
            let isSame = next.headerFields == from.headerFields && !head.headerFields.contains("Set-Cookie")
            if isSame, trail.closes(at: next) {
                throw RequestError(
                    .tooManyRedirects, "the redirects go in a circle: \(trail), to \(next.url.shortened)")
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
                "the server redirects to \(target.url.shortened), and only http and https are followed; "
                    + "with RedirectPolicy.none the \(head.statusCode) is the answer"
            )
        }
        let proposed = try from.redirected(to: target.url, statusCode: head.statusCode)
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
                + "the way; set RedirectPolicy.allowsInsecure to follow it"
        )
    }
}
