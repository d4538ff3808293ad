// Which responses may be stored: RFC 9111, section 3.
import Convoy
import Foundation

enum CacheRules {
    // The status codes for `must-understand` (RFC 9110, section 15). 206 is included, because the cache stores partial
    // responses; it never stores a 304, 412 or 416.
    static let understood: Set<Int> = [
        200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408,
        409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 426, 500, 501, 502, 503, 504, 505,
    ]
    /// The status codes that allow heuristic freshness (RFC 9110, section 15.1).
    static let heuristic: Set<Int> = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501]

    /// Such a response is never stored, and does not supersede a stored one.
    static func isOfOneRequest(_ statusCode: Int) -> Bool { [304, 412, 416].contains(statusCode) }

    // RFC 9110, section 9.2.1. Unsafe methods invalidate stored responses.
    static func isSafe(_ method: HTTPMethod) -> Bool { method == .get || otherSafe.contains(method) }
    private static let otherSafe: [HTTPMethod] = [.head, .options, "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY"]

    enum Refusal: String, Sendable, Equatable {
        case method, status, noStore, privateResponse, authorization, noFreshness, varyStar, requestNoStore, range
    }

    /// Nil if the response may be stored (RFC 9111, section 3).
    static func refusal(
        _ statusCode: Int, _ headerFields: HeaderFields, to requestFields: HeaderFields, _ sharing: CacheSharing
    ) -> Refusal? {
        guard (200...599).contains(statusCode), !isOfOneRequest(statusCode) else { return .status }
        if !requestFields.isEmpty, CacheControl(requestFields).contains("no-store") { return .requestNoStore }
        let control = Freshness.control(headerFields, sharing)
        if control.contains("must-understand") {
            guard understood.contains(statusCode) else { return .status }
        } else if control.contains("no-store") {
            return .noStore
        }
        if sharing.isShared {
            if control.isUnqualified("private") { return .privateResponse }
            // A shared cache stores a response to `Authorization` only if a directive allows that (RFC 9111, section
            // 3.5).
            if requestFields.contains("Authorization"),
                !control.contains("public"), !control.contains("must-revalidate"), !control.contains("s-maxage")
            {
                return .authorization
            }
        }
        if statusCode == 206, ContentRange(headerFields["Content-Range"] ?? "")?.range == nil { return .range }
        // No request matches a response with `Vary: *` (RFC 9111, section 4.1), so the cache would never use it.
        if VaryKey.names(headerFields) == nil { return .varyStar }
        let isMarked =
            control.contains("public") || !sharing.isShared && control.contains("private")
            || Freshness.isExplicit(headerFields, control, sharing) || heuristic.contains(statusCode)
        return isMarked ? nil : .noFreshness
    }

    /// The fields of one connection or hop, which must not be stored (RFC 9111, section 3.1).
    private static let hopFields = [
        "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "proxy-authenticate",
        "proxy-authentication-info", "proxy-authorization",
    ]

    static func storedFields(_ headerFields: HeaderFields, sharing: CacheSharing) -> HeaderFields {
        var named = headerFields.listMembers(of: "Connection")
        let control = Freshness.control(headerFields, sharing)
        if control.contains("no-cache") { named += control.fieldNames("no-cache") }
        if sharing.isShared { named += control.fieldNames("private") }
        let isLeft = { (field: HeaderFields.Field) in
            let isField = { (name: String) in
                // The lengths are compared first, because most names differ in length.
                name.utf8.count == field.name.utf8.count && name.equalsIgnoringCase(field.name)
            }
            return hopFields.contains(where: isField) || named.contains(where: isField)
        }
        guard headerFields.contains(where: isLeft) else { return headerFields }
        var kept = headerFields
        kept.removeAll(where: isLeft)
        return kept
    }

    // An update does not change these fields. The entity tag stays too: a weak tag matches a strong one, but does not
    // identify the stored bytes.
    private static let bodyFields: Set<String> = [
        "content-type", "content-encoding", "content-language", "content-length", "content-range", "content-md5",
        "content-digest", "repr-digest", "digest", "etag",
    ]

    /// The stored fields after an update from a 206, a 304 or a response to HEAD (RFC 9111, section 3.2).
    static func updated(_ stored: HeaderFields, with received: HeaderFields, sharing: CacheSharing) -> HeaderFields {
        var fresh = storedFields(received, sharing: sharing)
        fresh.removeAll { bodyFields.contains($0.name.lowercased()) }
        let names = Set(fresh.map { $0.name.lowercased() })
        var result = stored
        // The update restarts the age, so the old `Age` is removed.
        result.removeAll { names.contains($0.name.lowercased()) || $0.name.equalsIgnoringCase("Age") }
        for field in fresh { result.add(field.name, field.value) }
        // `no-cache` or `private` in the update may name fields that must not be stored. Earlier fields of these names
        // are removed.
        return storedFields(result, sharing: sharing)
    }

    /// RFC 9111, section 4.4: also the URLs in `Location` and `Content-Location` if their origin is the same.
    static func invalidated(_ request: PreparedRequest, _ head: ResponseHead) -> [URL] {
        guard !isSafe(request.method), (200..<400).contains(head.statusCode) else { return [] }
        var urls = [request.url]
        guard case .success(let origin) = request.url.origin else { return urls }
        for name in ["Location", "Content-Location"] {
            guard let text = head.headerFields.values(of: name).first,
                let url = URL(string: text.trimmingBlanks, relativeTo: request.url)?.absoluteURL,
                case .success(origin) = url.origin
            else { continue }
            urls.append(url)
        }
        return urls
    }
}
