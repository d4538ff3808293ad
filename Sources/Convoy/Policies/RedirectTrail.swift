// The way a request has gone from redirect to redirect.
import Foundation

/// The requests that were answered with a redirect, the one just answered included.
struct RedirectTrail: CustomStringConvertible {
    private struct Hop {
        let method: HTTPMethod
        let url: URL
        let statusCode: Int?
    }

    private var hops: [Hop]

    /// Retries on the way are no hops: the same URL is asked again on purpose then.
    init(earlier: [AttemptRecord], request: PreparedRequest, statusCode: Int) {
        hops = earlier.compactMap { record in
            guard case .redirect = record.next else { return nil }
            return Hop(method: record.method, url: record.url, statusCode: record.statusCode)
        }
        hops.append(Hop(method: request.method, url: request.url, statusCode: statusCode))
    }

    /// How many redirects there have been.
    var count: Int { hops.count }

    /// The hops in one line without credentials; the middle of many is left out.
    var description: String {
        let lines = hops.map { "\($0.method) \($0.url.shortened)" + ($0.statusCode.map { " (\($0))" } ?? "") }
        guard lines.count > 6 else { return lines.joined(separator: ", ") }
        return (lines.prefix(3) + ["\(lines.count - 6) more"] + lines.suffix(3)).joined(separator: ", ")
    }
}

extension URL {
    /// The URL for a message: without credentials, and not longer than a line.
    var shortened: String {
        let text = redactedString
        return text.utf8.count <= 100 ? text : text.prefix(60) + "..." + text.suffix(30)
    }
}
