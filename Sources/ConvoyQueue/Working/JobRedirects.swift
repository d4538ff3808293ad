import Convoy
import Foundation

// User agents turn a POST into a GET at 301, 302 and 303 (RFC 9110, section 15.4), whose response does not confirm the
// POST. Such redirects are refused, except a 301 or 302 from `http:` to `https:` on the same host, which is followed
// with the original method and body.
struct JobRedirects: Sendable {
    let next: (@Sendable (Redirect) -> RedirectDecision)?

    func decide(_ redirect: Redirect) -> RedirectDecision {
        guard redirect.to.method != redirect.from.method else { return next?(redirect) ?? .follow }
        guard redirect.response.statusCode != 303, Self.isUpgrade(redirect) else { return .refuse }
        var kept = redirect.to
        (kept.method, kept.body) = (redirect.from.method, redirect.from.body)
        // Restores the fields that the redirect dropped, such as those that describe the body. Secrets are not sent to
        // the `https:` origin.
        for field in redirect.from.headerFields where !field.isBoundToOrigin && !kept.headerFields.contains(field.name)
        {
            if field.name.lowercased() != "host" { kept.headerFields.add(field.name, field.value) }
        }
        guard let next else { return .rewrite(kept) }
        let decision = next(
            Redirect(response: redirect.response, from: redirect.from, to: kept, count: redirect.count))
        return decision == .follow ? .rewrite(kept) : decision
    }

    private static func isUpgrade(_ redirect: Redirect) -> Bool {
        let (from, to) = (redirect.from.url, redirect.to.url)
        return from.scheme?.lowercased() == "http" && to.scheme?.lowercased() == "https"
            && from.host()?.lowercased() == to.host()?.lowercased()
    }

    static func failure(_ error: RequestError, of job: Job) -> String? {
        guard error.code == .redirectRefused, !job.request.followsRedirectsAsGet, job.request.losesByRedirects,
            let response = error.response, [301, 302, 303].contains(response.statusCode)
        else { return nil }
        let place = response.headerFields["Location"].flatMap { $0.requestURL(at: job.request.url) }
        let target = place.map { "\(JobRequest(url: $0))".replacing("GET ", with: "") } ?? "another URL"
        return
            "the server redirects (\(response.statusCode)) to \(target) with a GET, which would drop the body of the "
            + "\(job.request.method): the redirect was not followed. Add the job with that URL, or with "
            + "followsRedirectsAsGet if the response to the GET is enough"
    }
}

extension DurableQueue {
    func redirects(of job: Job) -> RedirectPolicy? {
        guard job.request.losesByRedirects, !job.request.followsRedirectsAsGet else { return nil }
        var policy = manager.configuration.redirects
        let rule = JobRedirects(next: policy.onRedirect)
        policy.onRedirect = { rule.decide($0) }
        return policy
    }
}
