// What a redirect makes of a request: RFC 9110, section 15.4.
import Foundation

extension PreparedRequest {
    /// The request as it goes to another URL, with what the status code and the new origin leave of it.
    ///
    /// - Throws: `.invalidRequest` when nothing can be sent to the URL.
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

    /// Whether the method changes, and the body goes.
    private func becomesGet(by statusCode: Int) -> Bool {
        switch statusCode {
        // As user agents have always done it, and section 15.4.2 lets them: only POST.
        case 301, 302: method == .post
        case 303: method != .get && method != .head
        default: false
        }
    }

    /// Takes away what must not reach another origin than the one it was meant for: secrets, and the `Host` field.
    ///
    /// - Throws: `.invalidRequest` when the URL does not survive it.
    mutating func dropWhatIsBoundToItsOrigin() throws(RequestError) {
        headerFields.removeAll { $0.isSecret || $0.name.equalsIgnoringCase("Host") }
        var reference = URLReference(url.absoluteString)
        reference.dropUserInfo()
        guard let bare = reference.url else {
            throw RequestError(.invalidRequest, "nothing was sent: \(url.shortened) is no URL without its user name")
        }
        url = bare
        try check()
    }
}

extension HeaderFields {
    /// What describes a body, and goes with it (RFC 9110, sections 8 and 15.4; RFC 3230; RFC 9530).
    static let bodyFields: Set = [
        "content-type", "content-length", "content-encoding", "content-language", "content-location", "content-range",
        "content-disposition", "content-md5", "content-digest", "repr-digest", "digest", "last-modified",
        "transfer-encoding", "trailer", "expect",
    ]
}
