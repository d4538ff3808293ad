// Which requests a response answers: RFC 9111, section 4.1.
import Convoy
import Foundation

/// The fields of a request that selected a response, in a form in which equal meanings are equal.
struct VaryKey: Sendable, Hashable, Codable {
    /// By lower-case names; nil for a field that the request did not have.
    ///
    /// Digests, but for fields that say what formats and languages are accepted: any field may have a secret.
    var fields: [String: String?]

    /// The names that a response varies by, in lower case; nil for `*`.
    static func names(_ headerFields: HeaderFields) -> Set<String>? {
        var names: Set<String> = []
        for name in headerFields.listMembers(of: "Vary") { names.insert(name.lowercased()) }
        return names.contains("*") ? nil : names
    }

    static func isUnmatchable(_ headerFields: HeaderFields) -> Bool { names(headerFields) == nil }

    /// What of a request the names select.
    init(_ names: Set<String>, _ requestFields: HeaderFields, _ digest: KeyedDigest) {
        fields = [:]
        for name in names { fields[name] = .some(Self.normalized(name, requestFields, digest)) }
    }

    /// One that has been stored.
    init(stored fields: [String: String?]) { self.fields = fields }

    /// Whether another request has the same fields.
    ///
    /// - Parameter contentLanguage: the language of the stored response. What a request prefers to all others is what it would
    ///   get, whatever else it accepts.
    func matches(_ requestFields: HeaderFields, contentLanguage: String?, _ digest: KeyedDigest) -> Bool {
        fields.allSatisfy { name, stored in
            let presented = Self.normalized(name, requestFields, digest)
            if presented == stored { return true }
            guard name == "accept-language", let contentLanguage, let presented else { return false }
            return Self.preferredLanguage(presented) == contentLanguage.trimmingBlanks.lowercased()
        }
    }

    /// A field in one spelling: lines joined, blanks around members removed; where order and case mean nothing, those too.
    static func normalized(_ name: String, _ requestFields: HeaderFields, _ digest: KeyedDigest) -> String? {
        guard requestFields.contains(name) else { return nil }
        let members = requestFields.listMembers(of: name)
        switch name {
        case "accept-language", "accept-encoding", "accept-charset", "accept":
            return members.map(weighted).sorted().joined(separator: ",")
        case "authorization", "cookie": return digest.of(requestFields.values(of: name).joined(separator: "; "))
        default: return digest.of(members.joined(separator: ","))
        }
    }

    /// A member with its weight in one spelling: without blanks, in lower case, and without a weight of 1.
    private static func weighted(_ member: String) -> String {
        let parts = member.lowercased().split(separator: ";").map { String($0).trimmingBlanks }
        let kept = parts.dropFirst().compactMap { part -> String? in
            guard part.hasPrefix("q="), let weight = Double(part.dropFirst(2)) else { return part }
            return weight == 1 ? nil : "q=\(Int((min(max(weight, 0), 1) * 1000).rounded()))"
        }
        return ([parts.first ?? ""] + kept).joined(separator: ";")
    }

    /// The language that a normalized `Accept-Language` puts above all others; nil where several are as good.
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
