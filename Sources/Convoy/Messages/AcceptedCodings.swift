// Which content codings a request accepts: RFC 9110, section 12.5.3.
import Foundation

extension PreparedRequest {
    /// Whether the body is asked for as it is stored: codings of the answer are then the file's own, and stay.
    ///
    /// So it is where the field `Accept-Encoding` names nothing but `identity`, and for a `Range` without that field: a
    /// part of a coded body cannot be decoded.
    package var asksForIdentity: Bool {
        guard let value = headerFields["Accept-Encoding"] else { return headerFields.contains("Range") }
        return value == "identity" || acceptedCodings.isEmpty
    }

    /// The codings that the request's own `Accept-Encoding` names, in lower case, without `identity` and what it excludes.
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
