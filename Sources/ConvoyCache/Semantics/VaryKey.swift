// Which requests a response answers: RFC 9111, section 4.1.
import Convoy
import Foundation

/// The request fields that selected a response, normalized so that equal meanings are equal.
struct VaryKey: Sendable, Hashable, Codable {
    /// By names in lower case; nil for a field that the request did not have.
    var fields: [String: String?]

    /// The names by which a response varies, in lower case; nil for `*`.
    static func names(_ headerFields: HeaderFields) -> Set<String>? {
        var names: Set<String> = []
        for name in headerFields.listMembers(of: "Vary") { names.insert(name.lowercased()) }
        return names.contains("*") ? nil : names
    }

    static func isUnmatchable(_ headerFields: HeaderFields) -> Bool { names(headerFields) == nil }

    /// The fields of a request with these names.
    init(_ names: Set<String>, _ requestFields: HeaderFields) {
        fields = [:]
        for name in names { fields[name] = .some(Self.normalized(name, requestFields)) }
    }

    /// Whether another request has the same fields.
    ///
    /// - Parameter contentLanguage: the language of the stored response. If the request prefers it to all others, the
    ///   response matches, whatever else the request accepts.
    func matches(_ requestFields: HeaderFields, contentLanguage: String?) -> Bool {
        fields.allSatisfy { name, stored in
            let presented = Self.normalized(name, requestFields)
            if presented == stored { return true }
            guard name == "accept-language", let contentLanguage, let presented else { return false }
            return Self.preferredLanguage(presented) == contentLanguage.trimmingBlanks.lowercased()
        }
    }

    /// A normalized field: lines joined, and blanks around members removed.
    ///
    /// Order and case are normalized if they have no meaning.
    static func normalized(_ name: String, _ requestFields: HeaderFields) -> String? {
        guard requestFields.contains(name) else { return nil }
        let members = requestFields.listMembers(of: name)
        switch name {
        case "accept-language", "accept-encoding", "accept-charset", "accept":
            return members.map(weighted).sorted().joined(separator: ",")
        case "authorization", "cookie":
            // A digest, because the key is stored.
            let text = requestFields.values(of: name).joined(separator: "; ")
            return FileDigest.ofBytes(Data(text.utf8)).hexadecimal
        default: return members.joined(separator: ",")
        }
    }

    /// A member with its weight, without blanks, in lower case, and without a weight of 1.
    private static func weighted(_ member: String) -> String {
        let parts = member.lowercased().split(separator: ";").map { String($0).trimmingBlanks }
        let kept = parts.dropFirst().compactMap { part -> String? in
            guard part.hasPrefix("q="), let weight = Double(part.dropFirst(2)) else { return part }
            return weight == 1 ? nil : "q=\(Int((min(max(weight, 0), 1) * 1000).rounded()))"
        }
        return ([parts.first ?? ""] + kept).joined(separator: ";")
    }

    /// The language with the highest weight in a normalized `Accept-Language`; nil when several have it.
    private static func preferredLanguage(_ normalized: String) -> String? {
        let ranges = normalized.split(separator: ",").map { range -> (language: Substring, weight: Int) in
            let parts = range.split(separator: ";")
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.flatMap { Int($0.dropFirst(2)) } ?? 1000
            return (parts.first ?? "", weight)
        }
        guard let best = ranges.map(\.weight).max(), best > 0 else { return nil }
        let preferred = ranges.filter { $0.weight == best }
        return preferred.count == 1 ? preferred.first.map { String($0.language) } : nil
    }
}
