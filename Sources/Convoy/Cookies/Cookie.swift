// A cookie as a value: RFC 6265bis, section 5.7.
import Foundation

/// A cookie: a name and a value, its hosts and paths, and its lifetime.
///
/// ```swift
/// let cookie = Cookie(
///     name: "sid", value: "31d4", domain: "example.com", isSecure: true)
/// jar.set(cookie)
/// print(cookie)  // sid=<redacted>; Host=example.com; Path=/; Secure
/// ```
///
/// The initializer checks nothing; ``CookieJar/set(_:)`` rejects a cookie that breaks a rule. Descriptions and
/// reflections never show the value. `Codable` does write the value, so protect an encoded cookie like a password.
///
/// ## Concurrency
/// A cookie is a value: any thread may use it.
///
/// ## Topics
/// - ``name``
/// - ``value``
/// - ``domain``
/// - ``isHostOnly``
/// - ``path``
/// - ``expires``
/// - ``isSecure``
public struct Cookie: Sendable, Hashable, Codable, CustomStringConvertible, CustomReflectable {
    /// The name; empty for a cookie that has only a value, as RFC 6265bis allows.
    public var name: String
    /// The value as the server wrote it, including quotes and percent signs; descriptions never show it.
    public var value: String
    /// The host, in lower case in a jar; unless ``isHostOnly`` is set, the cookie is sent to the hosts below it too.
    public var domain: String
    /// Whether the cookie is sent to ``domain`` only, not to the hosts below that domain.
    public var isHostOnly: Bool
    /// The path below which the cookie is sent.
    public var path: String
    /// When the cookie expires; nil for a session cookie, which lives as long as its jar.
    public var expires: Date?
    /// Whether the cookie is sent over https only.
    public var isSecure: Bool
    /// Whether the server has requested to hide the cookie from scripts (`HttpOnly`), without effect on requests.
    public var isHTTPOnly: Bool
    /// The `SameSite` attribute (`Strict`, `Lax` or `None`), nil if missing or unknown, without effect on sending; a
    /// jar rejects `None` without ``isSecure``, as RFC 6265bis requires.
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

    /// As part of a `Cookie` field (RFC 6265bis, section 5.8.3, step 6).
    var pair: String { name.isEmpty ? value : "\(name)=\(value)" }

    func isExpired(at now: Date) -> Bool { expires.map { $0 <= now } ?? false }

    // Of two cookies of the same domain (RFC 6265bis, section 5.7, step 23). Compares octets, because `==` of strings
    // treats a composed and a decomposed `é` as equal.
    func replaces(_ other: Cookie) -> Bool {
        isHostOnly == other.isHostOnly && name.hasBytes(of: other.name) && path.hasBytes(of: other.path)
    }

    var hasHostPrefix: Bool { hasPrefix("__Host-") }

    /// For a cookie without a name the value is checked, because a server would read it as a name.
    private func hasPrefix(_ prefix: String) -> Bool {
        let start = (name.isEmpty ? value : name).utf8.prefix(prefix.utf8.count)
        return String(decoding: start, as: UTF8.self).equalsIgnoringCase(prefix)
    }

    // RFC 6265bis, section 5.7, steps 20 to 22. The caller checks that a `__Host-` cookie came with a Path attribute,
    // which the cookie does not record.
    var keepsPromiseOfPrefix: Bool {
        if hasHostPrefix { return !name.isEmpty && isSecure && isHostOnly && path == "/" }
        return !hasPrefix("__Secure-") || !name.isEmpty && isSecure
    }

    // Without changing the other cookies of the field. RFC 6265bis (section 5.7, step 3) forbids control characters
    // except the tab. `;` and `=` can only come from a program or a file, because they end the value and the name in a
    // `Set-Cookie` field.
    var isSendable: Bool {
        let forbidden = { (byte: UInt8) in (byte < 0x20 && byte != 0x09) || byte == 0x7F || byte == UInt8(ascii: ";") }
        return !(name.isEmpty && value.isEmpty) && !value.utf8.contains(where: forbidden)
            && !name.utf8.contains { forbidden($0) || $0 == UInt8(ascii: "=") }
    }

    /// The cookie in the form of a `Set-Cookie` field, with the value replaced.
    public var description: String {
        var parts = [name.isEmpty ? "<redacted>" : "\(name)=<redacted>"]
        parts += ["\(isHostOnly ? "Host" : "Domain")=\(domain)", "Path=\(path)"]
        if let expires { parts.append("Expires=\(expires)") }
        if isSecure { parts.append("Secure") }
        if isHTTPOnly { parts.append("HttpOnly") }
        if let sameSite { parts.append("SameSite=\(sameSite)") }
        return parts.joined(separator: "; ")
    }

    /// Contains only the description, because a reflection would show the value.
    public var customMirror: Mirror { Mirror(self, children: ["cookie": description]) }
}
