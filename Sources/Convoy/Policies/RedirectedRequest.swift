// How a redirect changes a request: RFC 9110, section 15.4.
import Foundation

extension PreparedRequest {
    /// The request for another URL.
    ///
    /// The status code and the new origin decide which parts are kept.
    ///
    /// - Throws: `.invalidRequest` when the URL cannot be requested.
    func redirected(to target: URL, statusCode: Int) throws(RequestError) -> PreparedRequest {
        var next = self
        if becomesGet(by: statusCode) {
            next.method = .get
            next.body = nil
            next.headerFields.removeAll { HeaderFields.bodyFields.contains($0.name.lowercased()) }
        }
        next.url = target
        try next.check()
        if next.hostKey != hostKey { try next.dropWhatIsBoundToItsOrigin() }
        return next
    }

    /// Whether the method changes to GET and the body is dropped.
    private func becomesGet(by statusCode: Int) -> Bool {
        switch statusCode {
        // Only POST changes to GET, as in all user agents and as RFC 9110, section 15.4.2, allows.
        case 301, 302: method == .post
        case 303: method != .get && method != .head
        default: false
        }
    }

    /// Removes what must not be sent to another origin: secrets, the `Host` field and the URL's user name and password.
    ///
    /// - Throws: `.invalidRequest` when the URL becomes invalid.
    mutating func dropWhatIsBoundToItsOrigin() throws(RequestError) {
        headerFields.removeAll { $0.isBoundToOrigin || $0.name.equalsIgnoringCase("Host") }
        var reference = URLReference(url.absoluteString)
        reference.dropUserInfo()
        guard let bare = reference.url else {
            throw RequestError(.invalidRequest, "nothing was sent: \(url.shortened) is not a URL without its user name")
        }
        url = bare
        try check()
    }
}

extension HeaderFields {
    /// Fields that describe a body and are dropped with it (RFC 9110, sections 8 and 15.4; RFC 3230; RFC 9530).
    static let bodyFields: Set = [
        "content-type", "content-length", "content-encoding", "content-language", "content-location", "content-range",
        "content-disposition", "content-md5", "content-digest", "repr-digest", "digest", "last-modified",
        "transfer-encoding", "trailer", "expect",
    ]
}
