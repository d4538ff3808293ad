// Cookies for requests: RFC 6265bis.
import Foundation

/// Stores the cookies of responses, in memory, and returns those for a request.
///
/// ```swift
/// let jar = CookieJar()
/// let fields: HeaderFields = ["Set-Cookie": "sid=31d4; Path=/; Secure"]
/// jar.store(fields, from: loginURL)
/// jar.cookieField(for: accountURL)  // "sid=31d4" for https and that host
/// ```
///
/// The rules are those of RFC 6265bis, as in browsers. A host sets cookies for itself and the domains above it, but not
/// for other hosts or public suffixes: top-level domains and about two hundred others (`co.uk`, `github.io`), not the
/// complete Public Suffix List. Secure cookies are for https only; unlike in browsers `http://localhost` is not secure.
/// No cookie lives longer than 400 days. Cookies that break a rule are ignored without an error, as the RFC requires.
///
/// To save a jar, encode ``cookies``, with those of the session (``Cookie/expires`` is nil); ``set(_:)`` restores each.
///
/// ## Concurrency
/// Any thread may use a jar. The clock and the predicate of ``remove(where:)`` are called without a lock.
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
public final class CookieJar: Sendable, CustomStringConvertible, CustomReflectable {
    private let state: Locked<CookieStore>
    private let limits: Limits
    private let now: @Sendable () -> Date

    /// Makes an empty jar with a clock by which cookies expire, called often, on any thread, without a lock.
    public init(limits: Limits = Limits(), now: @escaping @Sendable () -> Date = { Date() }) {
        state = Locked(CookieStore(limits: limits))
        self.limits = limits
        self.now = now
    }

    /// The value of the `Cookie` field for a URL, which differs after a redirect; nil when no cookie matches.
    ///
    /// Cookies with longer paths come first, then older ones. Nil for a URL that is neither http nor https.
    ///
    /// - Complexity: O(*k* log *k*) for *k* cookies of the host and of the domains above it, not of the jar.
    public func cookieField(for url: URL) -> String? {
        guard let origin = CookieOrigin(url) else { return nil }
        let now = now()
        let cookies = state.withLock { $0.cookies(for: origin, now: now) }
        return cookies.isEmpty ? nil : cookies.map(\.pair).joined(separator: "; ")
    }

    /// Stores the cookies of a response: up to 256 `Set-Cookie` fields.
    ///
    /// The URL is that of the request that received this response, not the one before a redirect. A cookie replaces an
    /// earlier one of the same name, domain and path; an expired cookie removes it.
    ///
    /// - Complexity: O(*n* + *c* * *k*), amortised, for *n* bytes with *c* cookies and *k* cookies of the domain, over
    ///   http of the site.
    public func store(_ fields: HeaderFields, from url: URL) {
        // The limit bounds the work that a hostile server can cause.
        let texts = fields.values(of: "Set-Cookie").prefix(256)
        guard !texts.isEmpty, let origin = CookieOrigin(url) else { return }
        let now = now()
        let cookies = texts.compactMap {
            SetCookie(
                $0[...], maxCookieBytes: limits.maxCookieBytes, maxAttributeBytes: limits.maxAttributeBytes, now: now)
        }
        state.withLock { store in for cookie in cookies { store.receive(cookie, from: origin, now: now) } }
    }

    /// The cookies in the jar that have not expired, the oldest first.
    ///
    /// - Complexity: O(*n* log *n*) for *n* cookies.
    public var cookies: [Cookie] {
        let now = now()
        return state.withLock { $0.cookies(now: now) }
    }

    /// Stores your own cookie or a saved one, in place of an earlier one of the same name, domain and path.
    ///
    /// The cookie may be Secure, unlike one from an http response. The jar rejects one beyond the limits, a name or
    /// value with `;` or a control character other than the tab, a name with `=`, one that does not meet the conditions
    /// of `__Host-` or `__Secure-`, and a public suffix or an address that is not ``Cookie/isHostOnly``. An expired
    /// cookie removes its predecessor.
    ///
    /// - Returns: whether the rules allow the cookie; if false, the jar is unchanged.
    /// - Complexity: O(*k*) for *k* cookies of the domain, amortised.
    @discardableResult public func set(_ cookie: Cookie) -> Bool {
        let now = now()
        return state.withLock { $0.set(cookie, now: now) }
    }

    /// Removes the cookies that a predicate selects, without those that arrive while it runs.
    ///
    /// - Parameter isMeant: returns whether to remove a cookie; the closure may use the jar.
    /// - Thread: any; the predicate is called on the same thread, without a lock.
    /// - Complexity: O(*n* log *n*) for *n* cookies.
    public func remove(where isMeant: (Cookie) throws -> Bool) rethrows {
        let unwanted = try cookies.filter(isMeant)
        state.withLock { store in for cookie in unwanted { store.remove(cookie) } }
    }

    /// Removes all cookies; O(*n*) for *n* cookies.
    public func removeAll() { state.withLock { $0.removeAll() } }

    /// How many cookies a jar stores, and how large they may be.
    ///
    /// A cookie that exceeds a size is not stored. A cookie that exceeds a count replaces others. The defaults are
    /// those of RFC 6265bis, which servers rely on. With a limit of zero or less the jar stores nothing.
    public struct Limits: Sendable, Hashable {
        /// The maximum size of name and value together, in bytes; 4,096 by default.
        public var maxCookieBytes: Int64 = 4_096
        /// The maximum size of an attribute's value, in bytes, above which it is ignored; 1,024 by default.
        public var maxAttributeBytes: Int64 = 1_024
        /// The maximum number of cookies of one domain, beyond which the least recently used, preferably one without
        /// `Secure`, is removed; 50 by default.
        public var maxCookiesPerDomain = 50
        /// The maximum number of cookies in the jar, beyond which expired ones are removed and, if that is not enough,
        /// the least recently used tenth; 3,000 by default.
        public var maxCookieCount = 3_000

        /// Makes the limits of RFC 6265bis.
        public init() {}
    }

    /// The number of cookies, without their contents.
    public var description: String { "CookieJar(\(cookies.count) cookies)" }
    /// Contains only the description, because a reflection would show what the lock guards.
    public var customMirror: Mirror { Mirror(self, children: ["jar": description]) }
}
