// The target of a redirect: the Location field, RFC 9110, section 10.2.2.
import Foundation

/// The resolved URL of a redirect.
///
/// The URL may have a scheme that no policy follows.
struct RedirectTarget {
    /// The URL, with the fragment of the request's URL if the `Location` has none.
    private(set) var url: URL

    /// The status codes that name another URL to request (RFC 9110, section 15.4).
    ///
    /// The set excludes 300, which offers a choice, 304, which confirms a cached copy, and the obsolete 305 and 306.
    private static let statusCodes: Set = [301, 302, 303, 307, 308]
    /// The maximum length of a location, in bytes.
    ///
    /// Real locations are shorter, and resolving a longer one would block a transport's thread for long.
    private static let maxBytes = 16 << 10

    /// Whether the scheme is http or https.
    var isWeb: Bool { ["http", "https"].contains(url.scheme?.lowercased()) }

    /// Why a response is not a redirect to follow.
    struct Defect: Error {
        /// The reason as a text for an error message; nil for a response that is not a redirect.
        let reason: String?
    }

    /// Finds the target of a redirect.
    ///
    /// - Throws: if the response is not a redirect to follow. Either its status is not a redirect, or the location is
    ///   missing, empty, too long or not a URL. The location may also be an http URL without a usable host or port, or
    ///   one of several different locations.
    init(_ head: ResponseHead, of request: PreparedRequest) throws(Defect) {
        guard Self.statusCodes.contains(head.statusCode) else { throw Defect(reason: nil) }
        let reference = URLReference(try Self.location(of: head))
        let base = URLReference(request.url.absoluteString)
        var resolved = reference.resolved(against: base)
        resolved.fragment = resolved.fragment ?? base.fragment
        guard let target = resolved.url else { throw Defect(reason: "its Location is not a URL") }
        url = target
        guard isWeb else { return }
        let origin: String
        switch target.origin {
        case .success(let found): origin = found
        case .failure(let defect):
            let reason = defect.reason.replacing(target.redactedString, with: target.shortened)
            throw Defect(reason: "its Location cannot be followed: \(reason)")
        }
        guard case .success(origin) = request.url.origin else {
            // A server must not choose the user name that another origin receives.
            resolved.dropUserInfo()
            guard let bare = resolved.url else {
                throw Defect(reason: "its Location is not a URL without its user name")
            }
            url = bare
            return
        }
    }

    /// The value of the response's only `Location` field, with invalid characters encoded.
    private static func location(of head: ResponseHead) throws(Defect) -> String {
        guard head.headerFields.contains("Location") else { throw Defect(reason: "it has no Location") }
        guard let location = head.headerFields.soleValue(of: "Location"), !location.isJoinedLocation else {
            throw Defect(reason: "it has several Locations that differ")
        }
        if location.isEmpty { throw Defect(reason: "its Location is empty") }
        let count = location.utf8.count
        guard count <= maxBytes else {
            throw Defect(reason: "its Location is \(count) bytes long, more than the limit of \(maxBytes)")
        }
        guard let url = location.requestURL else {
            // Text before an at sign may contain a password, so a location with an at sign is not shown.
            let shown = location.contains("@") ? "" : ": \(String(location.prefix(100)).debugDescription)"
            throw Defect(reason: "its Location is not a URL" + shown)
        }
        return url.relativeString
    }
}

extension String {
    /// Whether the text looks like several locations that URLSession has joined with a comma and a blank.
    ///
    /// A URL contains no blank. Without this check, the joined text would be parsed as one URL with a wrong path.
    fileprivate var isJoinedLocation: Bool {
        var rest = self[...]
        while let comma = rest.range(of: ", ") {
            rest = rest[comma.upperBound...]
            let start = rest.prefix(8).lowercased()
            if ["/", "http://", "https://"].contains(where: { start.hasPrefix($0) }) { return true }
        }
        return false
    }
}
