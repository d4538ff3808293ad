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
/// Too many redirects fail with `.tooManyRedirects`, but a URL may be repeated, because a server may count requests. A
/// redirect to another scheme than http and https, to a URL that the transport rejects, or from https to http fails
/// with `.redirectRefused`. A redirect without a usable `Location`, for example with an invalid host or above 16 KiB,
/// is the response; if its status is not acceptable, the error says why. The body of a followed redirect is ignored.
///
/// ## Concurrency
/// `Sendable`. The hook is called on the operation's serial executor, never on a transport's thread or under a lock.
///
/// ## Topics
/// - ``follow``
/// - ``never``
/// - ``init(maxCount:allowsInsecure:onRedirect:)``
public struct RedirectPolicy: Sendable {
    /// The maximum number of redirects that are followed for one request; with 0, a redirect is the response.
    public var maxCount: Int
    /// Whether a redirect may lead from https to http, where third parties can read and change the request.
    public var allowsInsecure: Bool
    /// A hook that is called before each redirect that the policy allows; nil to follow all of them.
    public var onRedirect: (@Sendable (Redirect) -> RedirectDecision)?

    /// Makes a policy of the properties with these names.
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
    /// Follows no redirects: a redirect is the response, accepted or not by its status code.
    public static let never = RedirectPolicy(maxCount: 0)

    /// Asked when the head arrives, on the transport's thread, without user code.
    func leads(_ head: ResponseHead, of request: PreparedRequest) -> Bool {
        maxCount > 0 && (try? RedirectTarget(head, of: request)) != nil
    }

    /// Nil if the response is not a redirect or can be followed, or if the policy follows no redirect.
    func defect(of head: ResponseHead, of request: PreparedRequest) -> String? {
        guard maxCount > 0 else { return nil }
        do throws(RedirectTarget.Defect) { _ = try RedirectTarget(head, of: request) } catch { return error.reason }
        return nil
    }

    // The request is without additions that must not be sent elsewhere (from interceptors or a cookie jar). Called on
    // the operation's thread, because it calls the hook.
    func next(after head: ResponseHead, of request: PreparedRequest, earlier: [AttemptRecord]) -> RedirectStep {
        guard maxCount > 0, let target = try? RedirectTarget(head, of: request) else { return .stands }
        do throws(RequestError) {
            // Retries do not count: they repeat the same URL on purpose.
            let redirects = earlier.filter { if case .redirect = $0.next { true } else { false } }
            let count = redirects.count + 1
            guard count <= maxCount else {
                let hops =
                    redirects.map { Self.hop($0.request, $0.statusCode) } + [Self.hop(request, head.statusCode)]
                let shown = count > 6 ? hops.prefix(3) + ["\(count - 6) more"] + hops.suffix(3) : hops[...]
                throw RequestError(
                    .tooManyRedirects,
                    "more than \(maxCount) redirects, the limit: \(shown.joined(separator: ", ")), to "
                        + target.url.shortened)
            }
            var from = request
            // A hook may have changed the URL of the request. `check` computes its origin again.
            try from.check()
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
            let next = try ask(Redirect(response: head, from: from, to: proposed, count: count))
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

    private static func hop(_ request: PreparedRequest, _ statusCode: Int?) -> String {
        "\(request.method) \(request.url.shortened)" + (statusCode.map { " (\($0))" } ?? "")
    }

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
    fileprivate static func redirected(to url: URL, _ reason: RequestError) -> RequestError {
        RequestError(
            .redirectRefused, "the server redirects to \(url.shortened), and no request can go there",
            underlying: reason.underlying ?? reason)
    }

    /// Blames the server if the transport rejects the URL of a redirect.
    func blamed(on earlier: AttemptRecord?, for request: PreparedRequest) -> RequestError {
        // If a hook chose another URL, the server is not to blame for that URL.
        guard code == .invalidRequest, let earlier, let head = earlier.response,
            case .redirect(to: request.url) = earlier.next,
            (try? RedirectTarget(head, of: earlier.request))?.url == request.url
        else { return self }
        return .redirected(to: request.url, self).with(response: head)
    }
}

/// A redirect that the policy allows.
public struct Redirect: Sendable {
    /// The redirect response.
    public let response: ResponseHead
    /// The redirected request, without additions of interceptors.
    public let from: PreparedRequest
    /// The request that will be sent: without credentials if its origin differs from that of `from`.
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
    /// Fail with `.redirectRefused`; the error's ``RequestError/response`` is the redirect response.
    case refuse
    /// Send another request, usually a changed ``Redirect/to``, checked, and at another origin without new credentials.
    case rewrite(PreparedRequest)
}

enum RedirectStep: Sendable {
    /// The caller receives the response, because it is not a redirect to follow.
    case stands
    case follow(PreparedRequest, leavesOrigin: Bool)
    case fail(RequestError)
}

/// The URL may have a scheme that no policy follows.
struct RedirectTarget {
    /// The URL, with the fragment of the request's URL if the `Location` has none.
    private(set) var url: URL

    /// Without 300, which offers a choice, 304, which confirms a cached copy, and the obsolete 305 and 306.
    private static let statusCodes: Set = [301, 302, 303, 307, 308]
    /// Real locations are shorter, and resolving a longer one would block a transport's thread for long.
    private static let maxBytes = 16 << 10

    var isWeb: Bool { ["http", "https"].contains(url.scheme?.lowercased()) }

    struct Defect: Error {
        let reason: String?
    }

    init(_ head: ResponseHead, of request: PreparedRequest) throws(Defect) {
        guard Self.statusCodes.contains(head.statusCode) else { throw Defect(reason: nil) }
        let reference = URLReference(try Self.location(of: head))
        let base = URLReference(request.url.absoluteString)
        var resolved = reference.resolved(against: base)
        resolved.fragment = resolved.fragment ?? base.fragment
        guard let target = resolved.url else { throw Defect(reason: "its Location is not a URL") }
        url = target
        guard isWeb else { return }
        switch (target.origin, request.url.origin) {
        case (.success(let new), .success(let old)) where new == old: break
        case (.success, _):
            // A server must not choose the user name that another origin receives.
            guard let bare = target.withoutUserInfo else {
                throw Defect(reason: "its Location is not a URL without its user name")
            }
            url = bare
        case (.failure(let defect), _):
            let reason = defect.reason.replacing(target.redactedString, with: target.shortened)
            throw Defect(reason: "its Location cannot be followed: \(reason)")
        }
    }

    /// The value of the response's only `Location` field, with invalid characters encoded.
    private static func location(of head: ResponseHead) throws(Defect) -> String {
        guard head.headerFields.contains("Location") else { throw Defect(reason: "it has no Location") }
        guard let location = head.headerFields.soleValue(of: "Location"), !location.isJoinedLocation else {
            throw Defect(reason: "it has several Locations that differ")
        }
        if location.isEmpty { throw Defect(reason: "its Location is empty") }
        let count = location.utf8.count
        guard count <= maxBytes else {
            throw Defect(reason: "its Location is \(count) bytes long, more than the limit of \(maxBytes)")
        }
        guard let url = location.requestURL else {
            // Text before an at sign may contain a password, so a location with an at sign is not shown.
            let text = SecretWords.standard.redacted(reference: String(location.prefix(100)))
            let shown = location.contains("@") ? "" : ": \(text.debugDescription)"
            throw Defect(reason: "its Location is not a URL" + shown)
        }
        return url.relativeString
    }
}

extension String {
    /// URLSession joins locations with a comma and a blank, which would be parsed as one URL with a wrong path.
    fileprivate var isJoinedLocation: Bool {
        var rest = self[...]
        while let comma = rest.range(of: ", ") {
            rest = rest[comma.upperBound...]
            let start = rest.prefix(8).lowercased()
            if ["/", "http://", "https://"].contains(where: { start.hasPrefix($0) }) { return true }
        }
        return false
    }
}

extension URL {
    var shortened: String {
        let text = redactedString
        return text.utf8.count <= 100 ? text : text.prefix(90) + "..."
    }

    fileprivate var withoutUserInfo: URL? {
        URL(string: absoluteString.withoutUserInfo, encodingInvalidCharacters: false)
    }
}

extension PreparedRequest {
    func redirected(to target: URL, statusCode: Int) throws(RequestError) -> PreparedRequest {
        var next = self
        // For 301 and 302, only POST changes to GET, as in all user agents and as RFC 9110, section 15.4.2, allows.
        if statusCode == 303 ? method != .get && method != .head : statusCode < 303 && method == .post {
            next.method = .get
            next.body = nil
            next.headerFields.removeAll { HeaderFields.bodyFields.contains($0.name.lowercased()) }
        }
        next.url = target
        try next.check()
        if next.hostKey != hostKey { try next.dropWhatIsBoundToItsOrigin() }
        return next
    }

    mutating func dropWhatIsBoundToItsOrigin() throws(RequestError) {
        headerFields.removeAll { $0.isBoundToOrigin || $0.name.equalsIgnoringCase("Host") }
        guard let bare = url.withoutUserInfo else {
            throw RequestError(.invalidRequest, "nothing was sent: \(url.shortened) is not a URL without its user name")
        }
        url = bare
        try check()
    }
}

extension HeaderFields {
    /// Fields that describe a body and are dropped with it (RFC 9110, sections 8 and 15.4; RFC 3230; RFC 9530).
    static let bodyFields: Set = [
        "content-type", "content-length", "content-encoding", "content-language", "content-location", "content-range",
        "content-disposition", "content-md5", "content-digest", "repr-digest", "digest", "last-modified",
        "transfer-encoding", "trailer", "expect",
    ]
}
