// The request target that Digest hashes.
import Foundation

/// The part of a URL that the request line contains: RFC 9112, section 3.2.1.
struct RequestTarget {
    /// Path and query.
    let text: String
    let path: String

    init(of url: URL) {
        // The target is cut from the URL's text, because `URLComponents` would change the spelling of escapes.
        let text = url.absoluteString
        let authority = text.range(of: "//")?.upperBound ?? text.startIndex
        let rest = text[authority...].drop { $0 != "/" && $0 != "?" && $0 != "#" }.prefix { $0 != "#" }
        self.text = rest.hasPrefix("/") ? String(rest) : "/" + rest
        path = String(self.text.prefix { $0 != "?" })
    }
}
