// Digests of bytes that arrive piece by piece.
import Foundation

/// A hash function that is fed piece by piece, and may fail where it is not Convoy's own code.
protocol FileHash {
    /// Takes the next bytes; how they are cut makes no difference.
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// The digest of everything so far; feeding may go on afterwards, and helps no more after an error.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's code made no digest: no memory, or a provider of OpenSSL that refuses.
struct HashFailure: Error {}

/// A hash function of Convoy's own, which does not fail; a copy goes its own way from there.
protocol HashFunction: FileHash, Sendable {
    init()
    func finish() -> [UInt8]
}

extension HashFunction {
    mutating func update(_ bytes: some ContiguousBytes) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// The digest of some bytes.
    static func digest(of bytes: some ContiguousBytes) -> [UInt8] {
        var hash = Self()
        hash.update(bytes)
        return hash.finish()
    }
}

extension Sequence<UInt8> {
    /// Two lower-case hexadecimal digits a byte.
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension FixedWidthInteger {
    /// The bytes, most significant first.
    var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
    /// The bytes, least significant first.
    var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }
}
