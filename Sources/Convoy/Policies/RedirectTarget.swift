// Where an answer leads: the Location field, RFC 9110, section 10.2.2.
import Foundation

/// The URL a redirect points at, resolved; it may be one that is never followed.
struct RedirectTarget {
    /// With the fragment of the request's URL where the field has none of its own.
    private(set) var url: URL

    /// The status codes that name another URL to be asked (RFC 9110, section 15.4).
    ///
    /// Not 300, which offers a choice, nor 304, which is an answer about a copy, nor 305 and 306, which are history.
    private static let statusCodes: Set = [301, 302, 303, 307, 308]
    /// What no honest server needs; resolving costs time on a transport's thread.
    private static let maxBytes = 16 << 10

    /// Whether it can be asked by HTTP at all.
    var isWeb: Bool { ["http", "https"].contains(url.scheme?.lowercased()) }

    /// Why an answer leads nowhere.
    struct Defect: Error {
        /// For people; nil of an answer that is no redirect.
        let reason: String?
    }

    /// Finds out where an answer leads.
    ///
    /// - Throws: when it leads nowhere and therefore is the answer: without a redirect's status, and when there is no
    ///   location, an empty or an overlong one, one that is no URL, an http URL without a usable host or port, or several
    ///   that differ.
    init(_ head: ResponseHead, of request: PreparedRequest) throws(Defect) {
        guard Self.statusCodes.contains(head.statusCode) else { throw Defect(reason: nil) }
        let reference = URLReference(try Self.location(of: head))
        let base = URLReference(request.url.absoluteString)
        var resolved = reference.resolved(against: base)
        resolved.fragment = resolved.fragment ?? base.fragment
        guard let target = resolved.url else { throw Defect(reason: "its Location is no URL") }
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
            // A server does not set the user of another origin.
            resolved.dropUserInfo()
            guard let bare = resolved.url else { throw Defect(reason: "its Location is no URL without its user name") }
            url = bare
            return
        }
    }

    /// The one location of an answer, with what no URL may contain encoded.
    private static func location(of head: ResponseHead) throws(Defect) -> String {
        guard head.headerFields.contains("Location") else { throw Defect(reason: "it has no Location") }
        guard let location = head.headerFields.soleValue(of: "Location"), !location.isJoinedLocation else {
            throw Defect(reason: "it has several Locations that differ")
        }
        if location.isEmpty { throw Defect(reason: "its Location is empty") }
        let count = location.utf8.count
        guard count <= maxBytes else {
            throw Defect(reason: "its Location is \(count) bytes long, and \(maxBytes) are followed at most")
        }
        guard let url = location.requestURL else {
            // What cannot be taken apart may have a password anywhere before an at sign.
            let shown = location.contains("@") ? "" : ": \(String(location.prefix(100)).debugDescription)"
            throw Defect(reason: "its Location is no URL" + shown)
        }
        return url.relativeString
    }
}

extension String {
    /// Whether this looks like several locations that a loader has joined: a URL has no blank in it.
    ///
    /// One of them would be the base of a path that is made of the others.
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
