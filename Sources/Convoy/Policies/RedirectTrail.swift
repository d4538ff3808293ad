// The sequence of redirects of a request.
import Foundation

/// The requests that received a redirect, including the latest.
struct RedirectTrail: CustomStringConvertible {
    private struct Hop {
        let method: HTTPMethod
        let url: URL
        let statusCode: Int?
    }

    private var hops: [Hop]

    /// Collects the earlier attempts that received a redirect, and adds the latest redirect.
    ///
    /// Retries are left out, because they repeat the same URL on purpose.
    init(earlier: [AttemptRecord], request: PreparedRequest, statusCode: Int) {
        hops = earlier.compactMap { record in
            guard case .redirect = record.next else { return nil }
            return Hop(method: record.method, url: record.url, statusCode: record.statusCode)
        }
        hops.append(Hop(method: request.method, url: request.url, statusCode: statusCode))
    }

    /// The number of redirects.
    var count: Int { hops.count }

    /// The redirects in one line without credentials.
    ///
    /// The middle of a long list is omitted.
    var description: String {
        let lines = hops.map { "\($0.method) \($0.url.shortened)" + ($0.statusCode.map { " (\($0))" } ?? "") }
        guard lines.count > 6 else { return lines.joined(separator: ", ") }
        return (lines.prefix(3) + ["\(lines.count - 6) more"] + lines.suffix(3)).joined(separator: ", ")
    }
}

extension URL {
    /// The URL for a message: without credentials, and at most one line long.
    ///
    /// A long URL loses its end, because ``SentSecrets`` still finds a secret whose end is missing.
    var shortened: String {
        let text = redactedString
        return text.utf8.count <= 100 ? text : text.prefix(90) + "..."
    }
}
