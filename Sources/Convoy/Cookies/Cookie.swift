// A cookie as a value: RFC 6265bis, section 5.7.
import Foundation

/// A cookie: a name and a value, the hosts and paths it is for, and how long it lives.
///
/// ```swift
/// let cookie = Cookie(
///     name: "sid", value: "31d4", domain: "example.com", isSecure: true)
/// jar.set(cookie)
/// print(cookie)  // sid=<redacted>; Host=example.com; Path=/; Secure
/// ```
///
/// Nothing is checked here; ``CookieJar/set(_:)`` refuses a cookie that breaks a rule. Descriptions and reflections
/// never show the value. What `Codable` writes does: keep such a file as you would keep a password.
///
/// ## Concurrency
/// A value; any thread.
///
/// ## Topics
/// - ``name``
/// - ``value``
/// - ``domain``
/// - ``isHostOnly``
/// - ``path``
/// - ``expires``
/// - ``isSecure``
public struct Cookie: Sendable, Hashable, Codable {
    /// The name; empty for a cookie that is only a value, which RFC 6265bis knows too.
    public var name: String
    /// The value, as the server wrote it: quotes and percent signs are part of it.
    ///
    /// Never shown by a description.
    public var value: String
    /// The host the cookie is for, and unless ``isHostOnly`` the hosts below it; in lower case once it is in a jar.
    public var domain: String
    /// Whether the cookie goes to ``domain`` itself only, not to the hosts below it.
    public var isHostOnly: Bool
    /// The path below which the cookie is sent.
    public var path: String
    /// When the cookie ends; nil for a session cookie, which lives as long as its jar.
    public var expires: Date?
    /// Whether the cookie is sent over https only.
    public var isSecure: Bool
    /// Whether the server has asked that scripts never see the cookie; kept for you, without effect here.
    public var isHTTPOnly: Bool
    /// What the server said of requests from other sites: `Strict`, `Lax`, `None`, or nil for nothing it is known by.
    ///
    /// Without effect on sending: a request of this library comes from no site. But `None` is refused without
    /// ``isSecure``, as RFC 6265bis asks.
    public var sameSite: String?

    /// Makes a cookie.
    public init(
        name: String, value: String, domain: String, isHostOnly: Bool = true, path: String = "/", expires: Date? = nil,
        isSecure: Bool = false, isHTTPOnly: Bool = false, sameSite: String? = nil
    ) {
        self.name = name
        self.value = value
        self.domain = domain
        self.isHostOnly = isHostOnly
        self.path = path
        self.expires = expires
        self.isSecure = isSecure
        self.isHTTPOnly = isHTTPOnly
        self.sameSite = sameSite
    }
}

extension Cookie {
    /// What the cookie adds to a Cookie field (section 5.8.3, step 6): a nameless one is its value alone.
    var pair: String { name.isEmpty ? value : "\(name)=\(value)" }

    /// Whether the cookie's end has come; a session cookie has none.
    func isExpired(at now: Date) -> Bool { expires.map { $0 <= now } ?? false }

    /// Whether one of two cookies of the same domain replaces the other (section 5.7, step 23).
    ///
    /// By octets: `==` of strings takes the two spellings of `é` for one.
    func replaces(_ other: Cookie) -> Bool {
        isHostOnly == other.isHostOnly && name.utf8.elementsEqual(other.name.utf8)
            && path.utf8.elementsEqual(other.path.utf8)
    }

    /// Whether the name starts with `__Host-`, in any case; for a nameless cookie the value, which a server would take
    /// for a name (section 5.7, steps 21 and 22).
    var hasHostPrefix: Bool { hasPrefix("__Host-") }

    private func hasPrefix(_ prefix: String) -> Bool {
        let start = (name.isEmpty ? value : name).utf8.prefix(prefix.utf8.count)
        return String(decoding: start, as: UTF8.self).equalsIgnoringCase(prefix)
    }

    /// Whether what the name's prefix promises holds (section 5.7, steps 20 to 22).
    ///
    /// That a `__Host-` cookie came with a Path attribute is for the caller to check: a cookie does not remember.
    var keepsPromiseOfPrefix: Bool {
        if hasHostPrefix { return !name.isEmpty && isSecure && isHostOnly && path == "/" }
        if hasPrefix("__Secure-") { return !name.isEmpty && isSecure }
        return true
    }

    /// Whether name and value can be written into a Cookie field without changing what else is there.
    ///
    /// Control characters are section 5.7, step 3; a tab is whitespace. `;` and `=` cannot come from a Set-Cookie
    /// field, where they end the value and the name, but from a program or a file.
    var isSendable: Bool {
        let forbidden = { (byte: UInt8) in (byte < 0x20 && byte != 0x09) || byte == 0x7F || byte == UInt8(ascii: ";") }
        return !(name.isEmpty && value.isEmpty) && !value.utf8.contains(where: forbidden)
            && !name.utf8.contains { forbidden($0) || $0 == UInt8(ascii: "=") }
    }
}

extension Cookie: CustomStringConvertible, CustomReflectable {
    /// The cookie as a Set-Cookie field would say it, with the value replaced.
    public var description: String {
        var parts = [name.isEmpty ? "<redacted>" : "\(name)=<redacted>"]
        parts += ["\(isHostOnly ? "Host" : "Domain")=\(domain)", "Path=\(path)"]
        if let expires { parts.append("Expires=\(expires)") }
        if isSecure { parts.append("Secure") }
        if isHTTPOnly { parts.append("HttpOnly") }
        if let sameSite { parts.append("SameSite=\(sameSite)") }
        return parts.joined(separator: "; ")
    }

    /// The description only: a reflection would show the value.
    public var customMirror: Mirror { Mirror(self, children: ["cookie": description]) }
}
