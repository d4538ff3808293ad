import Convoy
import Foundation

// HMAC-SHA-256 (RFC 2104): an attacker can find a short password from its plain digest by trying all candidates. A
// disk store keeps the key in a file beside the index, so a copy of the index alone, in a backup or a bug report,
// reveals no secret.
struct KeyedDigest: Sendable, Equatable {
    /// HMAC neither pads nor hashes a key of the block size of SHA-256.
    static let keyBytes = 64

    let key: Data

    init() {
        key = Data((0..<Self.keyBytes).map { _ in UInt8.random(in: 0...255) })
    }

    init?(key: Data) {
        guard key.count == Self.keyBytes else { return nil }
        self.key = key
    }

    func of(_ text: String) -> String {
        let inner = FileDigest.ofBytes(Data(key.map { $0 ^ 0x36 }) + Data(text.utf8))
        return FileDigest.ofBytes(Data(key.map { $0 ^ 0x5c }) + inner.bytes).hexadecimal
    }

    /// The order of fields matters only among fields of one name.
    func credentials(of headerFields: HeaderFields, isWithoutCookie: Bool = false) -> String? {
        let secrets = headerFields.filter { field in
            (field.isSecret || SecretWords.standard.isSecret(field.name))
                && !(isWithoutCookie && field.name.equalsIgnoringCase("Cookie"))
        }
        guard !secrets.isEmpty else { return nil }
        // A name has no colon, and a value no line feed, so different fields have different texts.
        let names = Set(secrets.map { $0.name.lowercased() }).sorted()
        return of(names.flatMap { name in headerFields.values(of: name).map { "\(name):\($0)\n" } }.joined())
    }
}
