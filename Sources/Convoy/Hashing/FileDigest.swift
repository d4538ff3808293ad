// The expected digest of a complete file.
import Foundation

/// The expected digest of a file.
///
/// ```swift
/// let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
/// let digest = FileDigest.sha256(text)
/// digest == FileDigest("sha-256=" + text.uppercased())  // true
/// FileDigest.sha256("ba78").defect
/// // "a SHA-256 digest has 64 hexadecimal digits, and 4 were given"
/// ```
///
/// A digest with a ``defect`` matches no file. Digests are equal when their function and bytes are equal, however
/// they were written.
///
/// ## Concurrency
/// A digest is a value: any thread may use it.
///
/// ## Topics
/// - ``sha256(_:)-(String)``
/// - ``sha512(_:)-(String)``
/// - ``init(_:)``
/// - ``algorithm``
/// - ``hexadecimal``
/// - ``defect``
public struct FileDigest: Sendable, Hashable, CustomStringConvertible {
    /// The hash function of a digest.
    public enum Algorithm: String, Sendable, CaseIterable, Codable {
        /// SHA-256, whose digests have 32 bytes.
        case sha256
        /// SHA-512, whose digests have 64 bytes.
        case sha512

        var function: HashFunction { self == .sha256 ? .sha256 : .sha512 }

        /// Of FIPS 180-4; `Repr-Digest` uses it in lower case, `Digest` in any case.
        var name: String { function.rawValue }

        var digestBytes: Int { self == .sha256 ? 32 : 64 }
    }

    /// The hash function.
    public let algorithm: Algorithm
    /// Why the digest is invalid, with the valid form; nil for a valid digest.
    public let defect: String?
    package let bytes: [UInt8]

    /// The digest in lower-case hexadecimal digits, two a byte; empty when there is a ``defect``.
    public var hexadecimal: String { bytes.hexadecimal }

    /// A SHA-256 digest from 64 hexadecimal digits in either case; other text results in a ``defect``.
    public static func sha256(_ hexadecimal: String) -> FileDigest { FileDigest(.sha256, hexadecimal: hexadecimal) }

    /// A SHA-512 digest from 128 hexadecimal digits in either case; other text results in a ``defect``.
    public static func sha512(_ hexadecimal: String) -> FileDigest { FileDigest(.sha512, hexadecimal: hexadecimal) }

    /// A SHA-256 digest from its 32 bytes, which are not hashed again; another length results in a ``defect``.
    public static func sha256(_ bytes: Data) -> FileDigest { FileDigest(.sha256, bytes: bytes) }

    /// A SHA-512 digest from its 64 bytes, which are not hashed again; another length results in a ``defect``.
    public static func sha512(_ bytes: Data) -> FileDigest { FileDigest(.sha512, bytes: bytes) }

    // By which bytes are recognised. On a system without SHA-256 it is a hash with a random key of the process, so
    // nothing that another process has stored is recognised.
    package static func ofBytes(_ bytes: Data) -> FileDigest {
        if let digest = try? HashFunction.sha256.digest(of: bytes) { return FileDigest(.sha256, bytes: digest) }
        let words = (0..<4).map { word in
            var hasher = Hasher()
            hasher.combine(word)
            // Data's own `hash(into:)` reads only the first bytes.
            bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
            return hasher.finalize()
        }
        return FileDigest(.sha256, bytes: words.flatMap { withUnsafeBytes(of: $0.bigEndian) { Array($0) } })
    }

    /// Reads a digest in the forms that lists of checksums use; nil for any other text.
    ///
    /// A SHA-256 digest has the prefix `sha256` or `sha-256`, then `:` or `=`, then 64 hexadecimal digits. SHA-512 has
    /// `sha512` or `sha-512` and 128 digits. Without a prefix, their number decides. Case makes no difference, but
    /// blanks are rejected.
    public init?(_ text: String) {
        let sign = text.utf8.firstIndex { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "=") }
        let name = sign.map { String(text[..<$0]) }
        let digits = sign.map { String(text[text.utf8.index(after: $0)...]) } ?? text
        let algorithm = Algorithm.allCases.first { algorithm in
            guard let name else { return digits.utf8.count == algorithm.digestBytes * 2 }
            return name.equalsIgnoringCase(algorithm.rawValue) || name.equalsIgnoringCase(algorithm.name)
        }
        guard let algorithm else { return nil }
        self.init(algorithm, hexadecimal: digits)
        if defect != nil { return nil }
    }

    init(_ algorithm: Algorithm, bytes: some Collection<UInt8>) {
        self.algorithm = algorithm
        let (wanted, given) = (algorithm.digestBytes, bytes.count)
        self.bytes = given == wanted ? Array(bytes) : []
        defect = given == wanted ? nil : "a \(algorithm.name) digest has \(wanted) bytes, not \(given)"
    }

    private init(_ algorithm: Algorithm, hexadecimal: String) {
        self.algorithm = algorithm
        let digits = hexadecimal.utf8.compactMap(\.hexadecimalValue)
        let (wanted, given) = (algorithm.digestBytes * 2, hexadecimal.unicodeScalars.count)
        guard digits.count == given, given == wanted else {
            bytes = []
            // The message does not quote the text, which may be anything of any length.
            defect =
                "a \(algorithm.name) digest has \(wanted) hexadecimal digits, and "
                + (digits.count == given ? "\(given) were given" : "the given text contains other characters")
            return
        }
        bytes = stride(from: 0, to: wanted, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
        defect = nil
    }

    /// Function and digits, for example `sha256:ba78…`, which ``init(_:)`` reads, or the ``defect`` in brackets.
    public var description: String { "\(algorithm.rawValue):" + (defect.map { "(\($0))" } ?? hexadecimal) }
}
