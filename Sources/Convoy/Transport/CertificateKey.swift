// The public key of a certificate for pinning, and certificates from PEM files.
import Foundation

/// Reads the public key of an X.509 certificate (RFC 5280, section 4.1).
///
/// URLSession on Apple platforms needs this type, because its TLS library provides only the complete certificate.
enum CertificateKey {
    /// The pin of a certificate's key: the base64 of the SHA-256 of its DER SubjectPublicKeyInfo (RFC 7469, section
    /// 2.4).
    ///
    /// - Parameter certificate: the certificate in DER.
    /// - Returns: nil when the data is not a certificate.
    static func pin(of certificate: Data) -> String? {
        guard let info = subjectPublicKeyInfo(of: certificate) else { return nil }
        return Data(SHA256.digest(of: info)).base64EncodedString()
    }

    /// The bytes of the SubjectPublicKeyInfo, including its tag and length.
    private static func subjectPublicKeyInfo(of certificate: Data) -> Data? {
        var all = DERReader(rest: certificate[...])
        guard var outer = all.next(.sequence)?.content, var body = outer.next(.sequence)?.content else { return nil }
        // Version 1 certificates have no version field.
        _ = body.next(.version)
        guard body.next(.integer) != nil else { return nil }
        // Skips the algorithm of the signature, the issuer, the validity and the subject.
        for _ in 0..<4 { guard body.next(.sequence) != nil else { return nil } }
        return body.next(.sequence)?.bytes
    }

    /// The certificates of a PEM text (RFC 7468), in DER.
    ///
    /// Text outside the certificate blocks is ignored.
    ///
    /// - Returns: nil when a certificate is truncated or not base64.
    static func certificates(inPEM text: String) -> [Data]? {
        var certificates: [Data] = []
        var lines: [Substring]?
        for line in text.split(whereSeparator: \.isNewline) {
            switch line.trimmingCharacters(in: .whitespaces) {
            case "-----BEGIN CERTIFICATE-----": lines = []
            case "-----END CERTIFICATE-----":
                guard let block = lines, let data = Data(base64Encoded: block.joined()), !data.isEmpty else {
                    return nil
                }
                certificates.append(data)
                lines = nil
            case let content: lines?.append(content[...])
            }
        }
        return lines == nil ? certificates : nil
    }
}

/// Reads one DER value after another (X.690, section 8.1), never past the end of the data.
private struct DERReader {
    enum Tag: UInt8 {
        case integer = 0x02
        case sequence = 0x30
        /// The tag of the version field: `[0]`, constructed.
        case version = 0xA0
    }

    var rest: Data

    /// Returns the complete bytes and the content of the next value; nil if its tag differs or its length is invalid.
    mutating func next(_ tag: Tag) -> (bytes: Data, content: DERReader)? {
        guard rest.first == tag.rawValue, let (headerBytes, length) = length,
            length <= rest.count - headerBytes
        else { return nil }
        let bytes = rest.prefix(headerBytes + length)
        rest = rest.dropFirst(headerBytes + length)
        return (bytes, DERReader(rest: bytes.dropFirst(headerBytes)))
    }

    /// The size of the tag and length fields in bytes, and the length of the content; nil if the length is truncated,
    /// indefinite, or has more than four bytes.
    private var length: (headerBytes: Int, length: Int)? {
        guard let first = rest.dropFirst().first else { return nil }
        guard first & 0x80 != 0 else { return (2, Int(first)) }
        let count = Int(first & 0x7F)
        let bytes = rest.dropFirst(2).prefix(count)
        guard (1...4).contains(count), bytes.count == count else { return nil }
        return (2 + count, bytes.reduce(0) { $0 << 8 | Int($1) })
    }
}
