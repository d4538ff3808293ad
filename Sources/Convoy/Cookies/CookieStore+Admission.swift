// Which cookies are accepted: RFC 6265bis, section 5.7, steps 1 to 22.
import Foundation

extension CookieStore {
    /// Stores the cookie of a `Set-Cookie` field, if its host may set it.
    mutating func receive(_ new: SetCookie, from origin: CookieOrigin, now: Date) {
        guard let (domain, isHostOnly) = domain(of: new, from: origin) else { return }
        let path = new.path.flatMap { $0.isEmpty ? nil : $0 } ?? CookiePath.standard(for: origin.path)
        let cookie = Cookie(
            name: new.name, value: new.value, domain: domain, isHostOnly: isHostOnly, path: path,
            expires: new.expires, isSecure: new.isSecure, isHTTPOnly: new.isHTTPOnly, sameSite: new.sameSite)
        // http cannot set a Secure cookie, because an attacker may write to the connection (RFC 6265bis, 5.7, step 13).
        guard origin.isSecure || !cookie.isSecure else { return }
        // http cannot replace a Secure cookie (RFC 6265bis, section 5.7, step 16).
        guard origin.isSecure || !hasSecureCookie(overlaidBy: cookie, now: now) else { return }
        // A `__Host-` cookie needs a Path attribute (RFC 6265bis, section 5.7, step 21). The default path does not
        // suffice.
        guard !cookie.hasHostPrefix || new.path != nil else { return }
        guard isAllowed(cookie) else { return }
        insert(cookie, now: now)
    }

    /// Stores a program's own cookie.
    ///
    /// Returns false when a rule forbids the cookie; the store then does not change.
    ///
    /// The rules for Secure cookies over http do not apply, because the cookie comes from no host.
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

    /// The rules for every cookie, from any source.
    private func isAllowed(_ cookie: Cookie) -> Bool {
        let attributes = [cookie.domain, cookie.path, cookie.sameSite ?? ""]
        return cookie.isSendable && cookie.keepsPromiseOfPrefix && limits.allowsPair(cookie.name, cookie.value)
            && cookie.path.utf8.first == UInt8(ascii: "/") && !cookie.domain.isEmpty
            && cookie.domain.utf8.allSatisfy { $0 < 0x80 }
            // A default path and a host may have any length. Limiting them bounds the size of the cookie.
            && attributes.allSatisfy { limits.allowsAttribute($0[...]) }
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
