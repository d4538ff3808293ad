// What Digest signs of a URL.
import Foundation

/// What of a URL is in the request line: RFC 9112, section 3.2.1.
struct RequestTarget {
    /// Path and query.
    let text: String
    let path: String

    init(of url: URL) {
        // Cut out of the text as it is: components would put escapes in a spelling of their own.
        let text = url.absoluteString
        let authority = text.range(of: "//")?.upperBound ?? text.startIndex
        let rest = text[authority...].drop { $0 != "/" && $0 != "?" && $0 != "#" }.prefix { $0 != "#" }
        self.text = rest.hasPrefix("/") ? String(rest) : "/" + rest
        path = String(self.text.prefix { $0 != "?" })
    }
}
