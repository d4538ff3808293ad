// The storage of cookies: RFC 6265bis, section 5.7.
import Foundation

// The store never returns an expired cookie. It removes the cookie when a request is sent to its domain, when a cookie
// of that domain is stored, or when the jar is full.
struct CookieStore {
    private struct Entry {
        let cookie: Cookie
        /// A cookie that replaces another inherits this value (RFC 6265bis, section 5.7, step 23).
        let creation: UInt64
        var lastUse: UInt64

        /// Lowest first: the least recently used, then the oldest of those used together.
        var age: (UInt64, UInt64) { (lastUse, creation) }

        /// Of the cookies of the host and its parent domains (RFC 6265bis, section 5.8.3, step 3).
        func isMeant(for origin: CookieOrigin) -> Bool {
            (!cookie.isHostOnly || cookie.domain == origin.host) && (!cookie.isSecure || origin.isSecure)
                && CookiePath.matches(origin.path, cookie.path)
        }
    }

    let limits: CookieJar.Limits
    /// By site (``PublicSuffixes/site(of:)``), then by domain: a request searches only the few domains of its host.
    private var sites: [String: [String: [Entry]]] = [:]
    private(set) var count = 0
    /// Orders stores and requests, because clock times, which the RFC uses, may be equal or go backwards.
    private var tick: UInt64 = 0

    init(limits: CookieJar.Limits) { self.limits = limits }

    // In the order in which they are sent (RFC 6265bis, section 5.8.3). O(*k* log *k*) for *k* cookies of the host and
    // of the domains above it.
    mutating func cookies(for origin: CookieOrigin, now: Date) -> [Cookie] {
        let site = PublicSuffixes.site(of: origin.host)
        guard sites[site] != nil else { return [] }
        let use = nextTick()
        var found: [Entry] = []
        for domain in CookieDomain.domains(of: origin.host) where sites[site]?[domain] != nil {
            change(domain, of: site) { entries in
                entries.removeAll { $0.cookie.isExpired(at: now) }
                for index in entries.indices where entries[index].isMeant(for: origin) {
                    entries[index].lastUse = use
                    found.append(entries[index])
                }
            }
        }
        // Cookies with longer paths come first, then older cookies (RFC 6265bis, section 5.8.3, step 4).
        found.sort { ($1.cookie.path.utf8.count, $0.creation) < ($0.cookie.path.utf8.count, $1.creation) }
        return found.map(\.cookie)
    }

    func cookies(now: Date) -> [Cookie] {
        sites.values.joined().flatMap(\.value).filter { !$0.cookie.isExpired(at: now) }
            .sorted { $0.creation < $1.creation }.map(\.cookie)
    }

    /// RFC 6265bis, section 5.7, step 16; O(*k*) for *k* cookies of the site.
    private func hasSecureCookie(overlaidBy new: Cookie, now: Date) -> Bool {
        guard let site = sites[PublicSuffixes.site(of: new.domain)] else { return false }
        return site.contains { domain, entries in
            entries.contains { entry in
                entry.cookie.isSecure && entry.cookie.name.hasBytes(of: new.name)
                    && CookiePath.matches(new.path, entry.cookie.path) && !entry.cookie.isExpired(at: now)
            } && (CookieDomain.matches(domain, new.domain) || CookieDomain.matches(new.domain, domain))
        }
    }

    // In place of the predecessor (RFC 6265bis, section 5.7, steps 23 and 24). O(*k*) for *k* cookies of the domain,
    // amortised: occasionally the complete jar is searched.
    private mutating func insert(_ cookie: Cookie, now: Date) {
        var cookie = cookie
        cookie.expires = cookie.expires.map { min($0, now + SetCookie.longestLife) }
        let (use, limit) = (nextTick(), limits.maxCookiesPerDomain)
        change(cookie.domain, of: PublicSuffixes.site(of: cookie.domain)) { entries in
            entries.removeAll { $0.cookie.isExpired(at: now) }
            let old = entries.firstIndex { cookie.replaces($0.cookie) }.map { entries.remove(at: $0) }
            // A server removes a cookie by sending an expired one.
            guard !cookie.isExpired(at: now) else { return }
            entries.append(Entry(cookie: cookie, creation: old?.creation ?? use, lastUse: use))
            guard entries.count > limit else { return }
            let victim = entries.indices.min {
                let (left, right) = (entries[$0], entries[$1])
                return left.cookie.isSecure == right.cookie.isSecure ? left.age < right.age : right.cookie.isSecure
            }
            if let victim { entries.remove(at: victim) }
        }
        if count > limits.maxCookieCount { makeRoom(now: now) }
    }

    mutating func remove(_ cookie: Cookie) {
        change(cookie.domain, of: PublicSuffixes.site(of: cookie.domain)) { entries in
            entries.removeAll { $0.cookie == cookie }
        }
    }

    mutating func removeAll() { (sites, count) = ([:], 0) }

    // Removes expired cookies. If that is not enough, the least recently used tenth of the jar is removed too: one
    // cookie at a time would search a full jar completely for each new cookie.
    private mutating func makeRoom(now: Date) {
        keep { !$0.cookie.isExpired(at: now) }
        guard count > limits.maxCookieCount else { return }
        let kept = max(0, limits.maxCookieCount - limits.maxCookieCount / 10)
        let ages = sites.values.joined().flatMap(\.value).map(\.age).sorted(by: >)
        guard kept > 0, kept <= ages.count else { return removeAll() }
        let oldest = ages[kept - 1]
        keep { $0.age >= oldest }
    }

    private mutating func keep(_ isKept: (Entry) -> Bool) {
        for (site, domains) in sites {
            for domain in domains.keys { change(domain, of: site) { $0.removeAll { !isKept($0) } } }
        }
    }

    private mutating func nextTick() -> UInt64 {
        tick += 1
        return tick
    }

    private mutating func change(_ domain: String, of site: String, _ body: (inout [Entry]) -> Void) {
        var domains = sites.removeValue(forKey: site) ?? [:]
        var entries = domains.removeValue(forKey: domain) ?? []
        count -= entries.count
        body(&entries)
        count += entries.count
        if !entries.isEmpty { domains[domain] = entries }
        if !domains.isEmpty { sites[site] = domains }
    }

    mutating func receive(_ new: SetCookie, from origin: CookieOrigin, now: Date) {
        guard let (domain, isHostOnly) = domain(of: new, from: origin) else { return }
        let path = new.path.flatMap { $0.isEmpty ? nil : $0 } ?? CookiePath.standard(for: origin.path)
        let cookie = Cookie(
            name: new.name, value: new.value, domain: domain, isHostOnly: isHostOnly, path: path,
            expires: new.expires, isSecure: new.isSecure, isHTTPOnly: new.isHTTPOnly, sameSite: new.sameSite)
        // http can neither set nor replace a Secure cookie, because an attacker may write to the connection (RFC
        // 6265bis, section 5.7, steps 13 and 16). A `__Host-` cookie needs a Path attribute (step 21); the default path
        // does not suffice.
        guard origin.isSecure || !cookie.isSecure && !hasSecureCookie(overlaidBy: cookie, now: now),
            !cookie.hasHostPrefix || new.path != nil, isAllowed(cookie)
        else { return }
        insert(cookie, now: now)
    }

    // False when a rule forbids the cookie, which comes from no host, so those for Secure over http do not apply.
    mutating func set(_ cookie: Cookie, now: Date) -> Bool {
        var cookie = cookie
        cookie.domain = CookieDomain.lowercased(cookie.domain, droppingDot: !cookie.isHostOnly)
        if cookie.domain.hasPrefix("["), cookie.domain.hasSuffix("]") {
            cookie.domain = String(cookie.domain.dropFirst().dropLast())
        }
        guard cookie.isHostOnly || CookieDomain.mayBeShared(cookie.domain), isAllowed(cookie) else { return false }
        insert(cookie, now: now)
        return true
    }

    private func isAllowed(_ cookie: Cookie) -> Bool {
        let attributes = [cookie.domain, cookie.path, cookie.sameSite ?? ""]
        return cookie.isSendable && cookie.keepsPromiseOfPrefix
            && Int64(cookie.name.utf8.count + cookie.value.utf8.count) <= limits.maxCookieBytes
            && cookie.path.utf8.first == UInt8(ascii: "/") && !cookie.domain.isEmpty
            && cookie.domain.utf8.allSatisfy { $0 < 0x80 }
            // A default path and a host may have any length. Limiting them bounds the size of the cookie.
            && attributes.allSatisfy { Int64($0.utf8.count) <= limits.maxAttributeBytes }
            // `SameSite=None` requires Secure (RFC 6265bis, section 5.7, step 19).
            && (cookie.isSecure || !(cookie.sameSite ?? "").equalsIgnoringCase("None"))
    }

    /// The host or domain of a cookie; nil if the host may not set it (RFC 6265bis, section 5.7, steps 7 to 10).
    private func domain(of new: SetCookie, from origin: CookieOrigin) -> (String, isHostOnly: Bool)? {
        if CookieDomain.mayBeShared(new.domain) {
            return CookieDomain.matches(origin.host, new.domain) ? (new.domain, false) : nil
        }
        // A cookie without a Domain attribute is for its host only. An address or a public suffix may only set cookies
        // for itself.
        return new.domain.isEmpty || new.domain == origin.host ? (origin.host, true) : nil
    }
}

/// What determines the cookies of a URL: not the port (RFC 6265bis, section 8.5).
struct CookieOrigin {
    let host: String
    let path: String
    /// False for `http://localhost`, although RFC 6265bis would allow it.
    let isSecure: Bool

    init?(_ url: URL) {
        guard let scheme = url.scheme, let host = CookieDomain.host(of: url) else { return nil }
        isSecure = scheme.equalsIgnoringCase("https")
        guard isSecure || scheme.equalsIgnoringCase("http") else { return nil }
        self.host = host
        let path = url.path(percentEncoded: true)
        self.path = path.isEmpty ? "/" : path
    }
}
