// The content codings that a request accepts (RFC 9110, section 12.5.3).
import Foundation

extension PreparedRequest {
    /// Whether the request asks for the body as it is stored, so that codings of the response belong to the file.
    ///
    /// This is true if `Accept-Encoding` names only `identity`. It is also true for a `Range` without that field,
    /// because a part of a coded body cannot be decoded.
    package var asksForIdentity: Bool {
        guard let value = headerFields["Accept-Encoding"] else { return headerFields.contains("Range") }
        return value == "identity" || acceptedCodings.isEmpty
    }

    /// The codings of the request's own `Accept-Encoding`, in lower case, without `identity` and excluded ones.
    var acceptedCodings: Set<String> {
        var names: Set<String> = []
        for member in headerFields.listMembers(of: "Accept-Encoding") {
            let parts = member.split(separator: ";").map { String($0).trimmingBlanks.lowercased() }
            guard let name = parts.first, !["", "identity"].contains(name) else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Double($0.dropFirst(2)) }
            if weight != 0 { names.insert(name) }
        }
        return names
    }
}
