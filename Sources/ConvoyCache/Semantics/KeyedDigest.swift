// What a stored head has in place of a request's secrets.
import Convoy
import Foundation

/// HMAC-SHA-256 (RFC 2104) by a random key of the store.
///
/// A plain digest of a short password or of a counted token is found by trying all of them. Without the key that is not
/// possible, so the index tells nothing of a secret. A disk store keeps the key in a file beside the index: a copy of the index
/// alone, in a backup or a bug report, has no key. An attacker who has both files can try secrets, as can one who has the owner's
/// account.
struct KeyedDigest: Sendable, Equatable {
    /// A block of the hash function: a key of this length is used as it is.
    static let keyBytes = 64

    let key: Data

    /// Makes a random key.
    init() {
        var generator = SystemRandomNumberGenerator()
        key = Data((0..<Self.keyBytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }

    /// Nil for a key of another length.
    init?(key: Data) {
        guard key.count == Self.keyBytes else { return nil }
        self.key = key
    }

    /// The digest in hexadecimal digits.
    func of(_ text: String) -> String {
        let inner = FileDigest.ofBytes(Data(key.map { $0 ^ 0x36 }) + Data(text.utf8))
        return FileDigest.ofBytes(Data(key.map { $0 ^ 0x5c }) + inner.bytes).hexadecimal
    }
}
