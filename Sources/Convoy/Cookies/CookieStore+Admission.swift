// Which cookies come in: RFC 6265bis, section 5.7, steps 1 to 22.
import Foundation

extension CookieStore {
    /// Stores what an answer's Set-Cookie field says, if the host it came from may say so.
    mutating func receive(_ new: SetCookie, from origin: CookieOrigin, now: Date) {
        guard let (domain, isHostOnly) = domain(of: new, from: origin) else { return }
        let path = new.path.flatMap { $0.isEmpty ? nil : $0 } ?? CookiePath.standard(for: origin.path)
        let cookie = Cookie(
            name: new.name, value: new.value, domain: domain, isHostOnly: isHostOnly, path: path,
            expires: new.expires, isSecure: new.isSecure, isHTTPOnly: new.isHTTPOnly, sameSite: new.sameSite)
        // Step 13: what came over a line that others may write to is no secret.
        guard origin.isSecure || !cookie.isSecure else { return }
        // Step 16: nor may it take the place of one.
        guard origin.isSecure || !hasSecureCookie(overlaidBy: cookie, now: now) else { return }
        // Step 21: not by the default path.
        guard !cookie.hasHostPrefix || new.path != nil else { return }
        guard isAllowed(cookie) else { return }
        insert(cookie, now: now)
    }

    /// Stores a cookie of a program's own; false when a rule forbids it and nothing has changed.
    ///
    /// There is no host it came from, so that steps 13 and 16 do not apply.
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

    /// What holds for every cookie, wherever it comes from.
    private func isAllowed(_ cookie: Cookie) -> Bool {
        let attributes = [cookie.domain, cookie.path, cookie.sameSite ?? ""]
        return cookie.isSendable && cookie.keepsPromiseOfPrefix && limits.allowsPair(cookie.name, cookie.value)
            && cookie.path.utf8.first == UInt8(ascii: "/") && !cookie.domain.isEmpty
            && cookie.domain.utf8.allSatisfy { $0 < 0x80 }
            // A default path and a host may be of any length: without this bound, cookies could be.
            && attributes.allSatisfy { limits.allowsAttribute($0[...]) }
            // Step 19.
            && (cookie.isSecure || !(cookie.sameSite ?? "").equalsIgnoringCase("None"))
    }

    /// The host or domain a cookie is for, or nil if it is not the host's to set (steps 7 to 10).
    private func domain(of new: SetCookie, from origin: CookieOrigin) -> (String, isHostOnly: Bool)? {
        if CookieDomain.mayBeShared(new.domain) {
            return CookieDomain.matches(origin.host, new.domain) ? (new.domain, false) : nil
        }
        // An address or a public suffix may name itself, and then only itself.
        return new.domain.isEmpty || new.domain == origin.host ? (origin.host, true) : nil
    }
}
