// The parts of a URL that matter to cookies.
import Foundation

/// The host, path and security of a URL, which determine its cookies.
///
/// Ports are ignored (RFC 6265bis, section 8.5).
struct CookieOrigin {
    let host: String
    let path: String
    /// Whether the scheme is https.
    ///
    /// False for `http://localhost`, although RFC 6265bis would allow it.
    let isSecure: Bool

    /// Reads a URL; nil unless it is http or https and has a host.
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
