// Digests that servers send with a response: RFC 9530, and RFC 3230 before it.
import Foundation

extension HeaderFields {
    // Covers the complete representation, even in a partial response (206), before any transfer coding and after any
    // content coding. So it applies to a file only if the bytes were requested and stored in that form. Members that
    // are invalid, or have an algorithm that this system lacks, are ignored.
    var representationDigest: FileDigest? {
        // Content-Digest does not help: it covers only the content of this response, which is a part in a 206.
        strongestDigest(in: "Repr-Digest", isDictionary: true) ?? strongestDigest(in: "Digest", isDictionary: false)
    }

    /// A dictionary of byte sequences (RFC 9651, section 3.2), or the older plain list (RFC 3230).
    private func strongestDigest(in fieldName: String, isDictionary: Bool) -> FileDigest? {
        var digests: [FileDigest.Algorithm: FileDigest] = [:]
        for member in listMembers(of: fieldName) {
            guard let sign = member.utf8.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let (key, value) = (String(member[..<sign]), member[member.utf8.index(after: sign)...])
            let algorithm = FileDigest.Algorithm.allCases.first {
                isDictionary ? key == $0.name.lowercased() : key.equalsIgnoringCase($0.name)
            }
            guard let algorithm else { continue }
            // The last value of a repeated key counts (RFC 9651, section 4.2.2), even if it is unreadable.
            digests[algorithm] = (isDictionary ? value.byteSequence : value).flatMap {
                FileDigest(algorithm, base64: $0)
            }
        }
        return [.sha512, .sha256].lazy.compactMap { digests[$0] }.first { $0.algorithm.function.defect == nil }
    }
}

extension FileDigest {
    /// Exactly the right length; the padding may be missing (RFC 9651, section 4.2.7).
    fileprivate init?(_ algorithm: Algorithm, base64 text: Substring) {
        let bareCount = (algorithm.digestBytes * 4 + 2) / 3
        let missing = (bareCount + 3) / 4 * 4 - text.utf8.count
        guard missing == 0 || text.utf8.count == bareCount,
            let bytes = Data(base64Encoded: text + String(repeating: "=", count: missing))
        else { return nil }
        self.init(algorithm, bytes: bytes)
        if defect != nil { return nil }
    }
}

extension Substring {
    /// The text between the colons of a byte sequence, without its parameters (RFC 9651, section 3.3.5).
    fileprivate var byteSequence: Substring? {
        let parts = utf8.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].isEmpty, parts[2].isEmpty || parts[2].first == UInt8(ascii: ";") else {
            return nil
        }
        return Substring(parts[1])
    }
}
