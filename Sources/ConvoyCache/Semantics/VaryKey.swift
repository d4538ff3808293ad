// Which requests a response may answer: RFC 9111, section 4.1.
import Convoy
import Foundation

struct VaryKey: Sendable, Hashable {
    // Digests, because any field may contain a secret, except `Accept`, `Accept-Charset`, `Accept-Encoding` and
    // `Accept-Language`. Nil for a field that the request did not have.
    var fields: [String: String?]

    /// Nil if no request matches.
    static func names(_ headerFields: HeaderFields) -> Set<String>? {
        let names = Set(headerFields.listMembers(of: "Vary").map { $0.lowercased() })
        return names.contains("*") ? nil : names
    }

    /// `Accept-Language` also matches if it prefers the language of the stored response most.
    func matches(_ requestFields: HeaderFields, contentLanguage: String?, _ digest: KeyedDigest) -> Bool {
        fields.allSatisfy { name, stored in
            let presented = Self.normalized(name, requestFields, digest)
            if presented == stored { return true }
            guard name == "accept-language", let contentLanguage, let presented else { return false }
            return Self.preferredLanguage(presented) == contentLanguage.trimmingBlanks.lowercased()
        }
    }

    // The `Accept` fields become sorted members in lower case. Any other value becomes a digest.
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

    private static func weighted(_ member: String) -> String {
        let parts = member.parts(separator: ";")
        let kept = parts.dropFirst().compactMap { part -> String? in
            let name = part.prefix { $0 != "=" }.lowercased()
            let value = part.dropFirst(name.count)
            // `Double` also parses `nan` and `inf`.
            guard name == "q", let weight = Double(value.dropFirst()), weight.isFinite else { return name + value }
            return weight >= 1 ? nil : "q=\(Int((max(weight, 0) * 1000).rounded()))"
        }
        return ([parts.first?.lowercased() ?? ""] + kept).joined(separator: ";")
    }

    /// Returns nil if several languages are equal, or none is acceptable.
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

extension VaryKey {
    init(_ names: Set<String>, _ requestFields: HeaderFields, _ digest: KeyedDigest) {
        self.init(fields: [:])
        for name in names { fields[name] = .some(Self.normalized(name, requestFields, digest)) }
    }
}
