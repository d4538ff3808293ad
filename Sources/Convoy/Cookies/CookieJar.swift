// Cookies for requests: RFC 6265bis.
import Foundation

/// Keeps cookies between requests: takes them from answers, and says which go with a request.
///
/// ```swift
/// let jar = CookieJar()
/// let fields: HeaderFields = ["Set-Cookie": "sid=31d4; Path=/; Secure"]
/// jar.store(fields, from: loginURL)
/// jar.cookieField(for: accountURL)  // "sid=31d4" for https and that host
/// ```
///
/// The rules are those of RFC 6265bis, which browsers follow: a host sets cookies for itself and the domains above it,
/// but for no other host, no IP address but its own, and no public suffix. Of those only the top-level domains and some
/// two hundred of the commonest are known (`co.uk`, `github.io`), not the whole Public Suffix List. Secure cookies are
/// taken from and sent to https only; to browsers `http://localhost` is safe too, to this jar neither it nor
/// `http://127.0.0.1` is. No cookie lives longer than 400 days. What breaks a rule is passed over in silence, as the
/// RFC asks.
///
/// The jar lives in memory. To keep it, encode ``cookies`` and give each to ``set(_:)`` later: they come in the order
/// of their creation, and session cookies are among them (``Cookie/expires`` is nil).
///
/// ## Concurrency
/// Any thread. One lock, a leaf: the clock and the predicate of ``remove(where:)`` are called without it.
///
/// ## Topics
/// - ``init(limits:now:)``
/// - ``cookieField(for:)``
/// - ``store(_:from:)``
/// - ``set(_:)``
/// - ``cookies``
/// - ``remove(where:)``
/// - ``removeAll()``
/// - ``Limits``
public final class CookieJar: Sendable {
    private let state: Locked<CookieStore>
    private let limits: Limits
    private let now: @Sendable () -> Date

    /// Makes an empty jar.
    ///
    /// - Parameters:
    ///   - limits: how much the jar keeps.
    ///   - now: the clock that cookies expire by; called often, on any thread, without a lock.
    public init(limits: Limits = Limits(), now: @escaping @Sendable () -> Date = { Date() }) {
        state = Locked(CookieStore(limits: limits))
        self.limits = limits
        self.now = now
    }

    /// The value of the Cookie field for a request to a URL, or nil when no cookie is for it.
    ///
    /// Cookies with longer paths come first, then those that were created first. Nil too for a URL that is neither http
    /// nor https. To be asked for every request, each redirect included: the answer depends on host, path and scheme.
    ///
    /// - Thread: any.
    /// - Complexity: O(*k* log *k*) for *k* cookies of the host and of the domains above it, not of the jar.
    public func cookieField(for url: URL) -> String? {
        guard let origin = CookieOrigin(url) else { return nil }
        let now = now()
        let cookies = state.withLock { $0.cookies(for: origin, now: now) }
        return cookies.isEmpty ? nil : cookies.map(\.pair).joined(separator: "; ")
    }

    /// Takes the cookies of an answer from a URL: of every Set-Cookie field, up to 256 of them.
    ///
    /// The URL is that of the request this very answer belongs to, not the one before a redirect. A cookie replaces the
    /// one of the same name, domain and path; one that ends in the past removes it. Of one answer at most 256 are
    /// looked at.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n* + *c* * *k*) for *n* bytes with *c* cookies and *k* cookies of the domain; over http, of the
    ///   site. Amortised: a full jar is searched as a whole once for each tenth of it.
    public func store(_ fields: HeaderFields, from url: URL) {
        let texts = fields.values(of: "Set-Cookie").prefix(SetCookie.maxPerAnswer)
        guard !texts.isEmpty, let origin = CookieOrigin(url) else { return }
        let now = now()
        let cookies = texts.compactMap { SetCookie($0[...], limits: limits, now: now) }
        state.withLock { store in
            for cookie in cookies { store.receive(cookie, from: origin, now: now) }
        }
    }

    /// The cookies in the jar that have not expired, the oldest first.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n* log *n*) for *n* cookies.
    public var cookies: [Cookie] {
        let now = now()
        return state.withLock { $0.cookies(now: now) }
    }

    /// Stores a cookie of your own, or one saved earlier, in place of one of the same name, domain and path.
    ///
    /// It is trusted more than an answer is, and may be Secure. But it must be within the limits and possible to send:
    /// a name or value with `;`, a control character, or a broken promise of `__Host-` or `__Secure-`, is refused, and
    /// so is a public suffix or an address that is not ``Cookie/isHostOnly``. One that has expired removes its
    /// predecessor.
    ///
    /// - Returns: whether the rules allow the cookie; after false the jar is as it was.
    /// - Thread: any.
    /// - Complexity: O(*k*) for *k* cookies of the domain, amortised.
    @discardableResult public func set(_ cookie: Cookie) -> Bool {
        let now = now()
        return state.withLock { $0.set(cookie, now: now) }
    }

    /// Removes the cookies a predicate picks.
    ///
    /// A cookie that comes while the predicate is at work stays.
    ///
    /// - Parameter isMeant: whether a cookie is to go; may use the jar.
    /// - Thread: any; the predicate is called on it, without a lock.
    /// - Complexity: O(*n* log *n*) for *n* cookies.
    public func remove(where isMeant: (Cookie) throws -> Bool) rethrows {
        let unwanted = try cookies.filter(isMeant)
        state.withLock { store in
            for cookie in unwanted { store.remove(cookie) }
        }
    }

    /// Removes all cookies.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* cookies.
    public func removeAll() { state.withLock { $0.removeAll() } }
}

extension CookieJar: CustomStringConvertible, CustomReflectable {
    /// How many cookies there are, and none of them.
    public var description: String { "CookieJar(\(cookies.count) cookies)" }
    /// The description only: a reflection would reach into what the lock guards.
    public var customMirror: Mirror { Mirror(self, children: ["jar": description]) }
}
