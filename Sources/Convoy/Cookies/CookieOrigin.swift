// What a URL means to cookies.
import Foundation

/// The host, path and safety of a URL: all that cookies know of it.
///
/// Ports do not count (RFC 6265bis, section 8.5).
struct CookieOrigin {
    let host: String
    let path: String
    /// Whether the connection is a safe one: https.
    ///
    /// `http://localhost` is none, although RFC 6265bis would allow it.
    let isSecure: Bool

    /// Looks at a URL; nil unless it is an http or https one with a host.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    init?(_ url: URL) {
        guard let scheme = url.scheme, let host = CookieDomain.host(of: url) else { return nil }
        isSecure = scheme.equalsIgnoringCase("https")
        guard isSecure || scheme.equalsIgnoringCase("http") else { return nil }
        self.host = host
        let path = url.path(percentEncoded: true)
        self.path = path.isEmpty ? "/" : path
    }
}
