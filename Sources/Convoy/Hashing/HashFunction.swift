// Digests of bytes that arrive in chunks.
import Foundation

/// A hash function that receives chunks.
///
/// A function of the system may fail; Convoy's own code does not.
protocol FileHash {
    /// Adds bytes.
    ///
    /// The division of the bytes into chunks makes no difference.
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// The digest of all bytes so far.
    ///
    /// More bytes may be added afterwards, but not after an error.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's library could not compute a digest: memory was exhausted, or an OpenSSL provider failed.
struct HashFailure: Error {}

/// A hash function in Convoy's own code, which does not fail.
///
/// A copy is independent of the original.
protocol HashFunction: FileHash, Sendable {
    init()
    func finish() -> [UInt8]
}

extension HashFunction {
    mutating func update(_ bytes: some ContiguousBytes) {
        bytes.withUnsafeBytes { update($0) }
    }

    static func digest(of bytes: some ContiguousBytes) -> [UInt8] {
        var hash = Self()
        hash.update(bytes)
        return hash.finish()
    }
}

extension Sequence<UInt8> {
    /// The bytes as two lower-case hexadecimal digits each.
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
