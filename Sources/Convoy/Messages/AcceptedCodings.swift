// The content codings that a request accepts (RFC 9110, section 12.5.3).
import Foundation

extension PreparedRequest {
    /// Whether the request accepts only a body without content coding.
    ///
    /// If the response to such a request has a coding, the coding belongs to the file and is not removed. The property
    /// is true if `Accept-Encoding` accepts no coding except `identity`. It is also true for a `Range` without
    /// `Accept-Encoding`, because a part of a coded body cannot be decoded, and if the caller omits `Accept-Encoding`.
    package var asksForIdentity: Bool {
        guard let value = headerFields["Accept-Encoding"] else {
            return headerFields.contains("Range") || omitsAcceptedCodings && !decodesFile
        }
        return value == "identity" || acceptedCodings.isEmpty
    }

    private var omitsAcceptedCodings: Bool { omittedFields.contains("accept-encoding") }

    /// Asks for a body without content coding, unless the caller omits `Accept-Encoding`.
    mutating func askForIdentity() {
        if !omitsAcceptedCodings { headerFields["Accept-Encoding"] = "identity" }
    }

    /// The codings of the request's own `Accept-Encoding`, in lower case, without `identity` and codings of weight 0.
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
