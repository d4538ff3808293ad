// Digests that servers send along: RFC 9530, and RFC 3230 before it.
import Foundation

extension HeaderFields {
    /// The digest of the whole representation, the strongest there is; nil without one that can be read.
    ///
    /// It is of the bytes before any transfer coding and behind any content coding: it says something about a file only
    /// when that was asked for, and is stored, as it is. Of a part (206) it is the digest of the whole all the same.
    ///
    /// A member that makes no sense, or is of a function not known, is passed over.
    var representationDigest: FileDigest? {
        // Not Content-Digest: that is of the content of this one answer, which in a 206 is a part.
        strongestDigest(in: "Repr-Digest", isDictionary: true) ?? strongestDigest(in: "Digest", isDictionary: false)
    }

    /// - Parameter isDictionary: whether the field is a dictionary of byte sequences (RFC 9651, section 3.2), or else
    ///   the bare list that came before.
    private func strongestDigest(in fieldName: String, isDictionary: Bool) -> FileDigest? {
        var digests: [FileDigest.Algorithm: FileDigest] = [:]
        for member in listMembers(of: fieldName) {
            guard let sign = member.utf8.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let (key, value) = (String(member[..<sign]), member[member.utf8.index(after: sign)...])
            let algorithm = FileDigest.Algorithm.allCases.first {
                isDictionary ? key == $0.name.lowercased() : key.equalsIgnoringCase($0.name)
            }
            guard let algorithm else { continue }
            // Of a key that comes twice the last counts (RFC 9651, section 4.2.2), readable or not.
            digests[algorithm] = (isDictionary ? value.byteSequence : value).flatMap {
                FileDigest(algorithm, base64: $0)
            }
        }
        return digests[.sha512] ?? digests[.sha256]
    }
}

extension FileDigest {
    /// Reads base64 of exactly the right length, of which the padding may be missing (RFC 9651, section 4.2.7).
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
    /// What is between the colons of a byte sequence, whose parameters are passed over (RFC 9651, section 3.3.5).
    fileprivate var byteSequence: Substring? {
        let parts = utf8.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].isEmpty, parts[2].isEmpty || parts[2].first == UInt8(ascii: ";") else {
            return nil
        }
        return Substring(parts[1])
    }
}
