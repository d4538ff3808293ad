import Convoy
import Foundation

enum CookieFile {
    private static let heading = """
        # Netscape HTTP Cookie File
        # Written by convoy. Protect it like a password.

        """
    private static let prefix = "#HttpOnly_"

    // Lines that are not cookies are ignored, unless the text has no cookie or has `Set-Cookie` fields.
    static func cookies(in text: String) throws(UsageError) -> [Cookie] {
        let lines = text.split(whereSeparator: \.isNewline)
        guard !lines.contains(where: { $0.lowercased().hasPrefix("set-cookie:") }) else {
            throw UsageError(
                "has Set-Cookie fields, which are not supported: use -b NAME=VALUE, or a file of --cookie-jar")
        }
        let cookies = lines.compactMap(cookie)
        guard !cookies.isEmpty || lines.allSatisfy({ $0.hasPrefix("#") || $0.allSatisfy(\.isWhitespace) }) else {
            throw UsageError("has no cookie in the format of curl: seven columns separated by tabs")
        }
        return cookies
    }

    private static func cookie(_ line: Substring) -> Cookie? {
        let isHTTPOnly = line.hasPrefix(prefix)
        let line = isHTTPOnly ? line.dropFirst(prefix.count) : line
        guard !line.hasPrefix("#") else { return nil }
        let columns = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        guard columns.count >= 6, let seconds = Double(columns[4]) else { return nil }
        let domain = columns[0].hasPrefix(".") ? String(columns[0].dropFirst()) : columns[0]
        return Cookie(
            name: columns[5], value: columns.count > 6 ? columns[6] : "", domain: domain,
            isHostOnly: columns[1].uppercased() != "TRUE", path: columns[2],
            expires: seconds > 0 ? Date(timeIntervalSince1970: seconds) : nil,
            isSecure: columns[3].uppercased() == "TRUE", isHTTPOnly: isHTTPOnly)
    }

    static func text(of cookies: [Cookie]) -> String {
        heading + cookies.map { line($0) + "\n" }.joined()
    }

    private static func line(_ cookie: Cookie) -> String {
        let columns = [
            (cookie.isHTTPOnly ? prefix : "") + (cookie.isHostOnly ? "" : ".") + cookie.domain,
            cookie.isHostOnly ? "FALSE" : "TRUE", cookie.path, cookie.isSecure ? "TRUE" : "FALSE",
            String(Int64(max(0, cookie.expires?.timeIntervalSince1970 ?? 0))), cookie.name, cookie.value,
        ]
        return columns.joined(separator: "\t")
    }
}
