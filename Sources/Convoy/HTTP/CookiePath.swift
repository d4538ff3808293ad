// The paths of cookies: RFC 6265bis, section 5.1.4.

/// Rules for the paths of cookies.
///
/// The rules compare octets, because `hasPrefix` treats a composed and a decomposed `é` as equal.
enum CookiePath {
    /// The path of a cookie without a Path attribute: the URL's path before its last `/`, or else `/`.
    static func standard(for path: String) -> String {
        guard path.utf8.first == UInt8(ascii: "/"), let last = path.utf8.lastIndex(of: UInt8(ascii: "/")),
            last > path.startIndex
        else { return "/" }
        return String(path[..<last])
    }

    /// Whether a request's path path-matches a cookie's path: both are equal, or the request's path lies below.
    static func matches(_ path: String, _ cookiePath: String) -> Bool {
        guard path.utf8.starts(with: cookiePath.utf8) else { return false }
        let rest = path.utf8.dropFirst(cookiePath.utf8.count)
        return rest.isEmpty || cookiePath.utf8.last == UInt8(ascii: "/") || rest.first == UInt8(ascii: "/")
    }
}
