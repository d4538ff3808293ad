import Foundation
import Testing

@testable import Convoy

@Suite struct DigestFieldsTests {
    // The digests of "abc".
    private static let base256 = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    private static let base512 =
        "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="
    private static let digest256 = FileDigest.ofBytes(Data("abc".utf8))
    private static let digest512 = FileDigest(.sha512, bytes: Data("abc".utf8).sha512)
    // The digest of "".
    private static let other256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

    private func digest(_ name: String, _ values: String...) -> FileDigest? {
        HeaderFields(values.map { (name, $0) }).representationDigest
    }

    @Test(arguments: [
        ("sha-256=:\(base256):", digest256), ("sha-512=:\(base512):", digest512),
        ("sha-256=:\(base256):, sha-512=:\(base512):", digest512),
        ("sha-512=:\(base512):,sha-256=:\(base256):", digest512),
        (" sha-256=:\(base256): \t,\t md5=:AAAA:", digest256), ("sha-256=:\(base256):;a;b=\"c, d\";e=1", digest256),
        ("sha-256=:\(base256.dropLast()):", digest256), ("sha-512=:\(base512.dropLast(2)):", digest512),
    ])
    func dictionaryIsRead(value: String, expected: FileDigest) {
        #expect(digest("Repr-Digest", value) == expected)
        #expect(digest("repr-digest", value) == expected)
    }

    @Test(arguments: [
        ("SHA-256=\(base256)", digest256), ("sha-256=\(base256)", digest256), ("Sha-512=\(base512)", digest512),
        ("SHA-256=\(base256),SHA-512=\(base512)", digest512),
        ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==, sha-256=\(base256)", digest256),
        ("unixsum=30637 , SHA-256=\(base256)", digest256), ("SHA-256=\(base256.dropLast())", digest256),
    ])
    func obsoleteListIsRead(value: String, expected: FileDigest) {
        #expect(digest("Digest", value) == expected)
    }

    @Test func fieldLinesAreJoined() {
        #expect(digest("Repr-Digest", "sha-256=:\(Self.base256):", "sha-512=:\(Self.base512):") == Self.digest512)
        #expect(digest("Digest", "SHA-512=\(Self.base512)", "SHA-256=\(Self.base256)") == Self.digest512)
        #expect(digest("Repr-Digest", "", "sha-256=:\(Self.base256):", ",") == Self.digest256)
    }

    @Test func newFieldGoesBeforeTheObsoleteOne() {
        let good = "sha-256=:\(Self.base256):"
        let fields: HeaderFields = ["Digest": "SHA-256=\(Self.other256)", "Repr-Digest": good]
        #expect(fields.representationDigest == Self.digest256)
        let unknown: HeaderFields = ["Repr-Digest": "md5=:AAAA:", "Digest": "SHA-256=\(Self.base256)"]
        #expect(unknown.representationDigest == Self.digest256)
    }

    /// In a 206, `Content-Digest` covers only the transferred part of the file.
    @Test func digestsOfTheContentAreIgnored() {
        #expect(digest("Content-Digest", "sha-256=:\(Self.base256):") == nil)
        #expect(digest("Content-MD5", "SHA-256=\(Self.base256)") == nil)
        #expect(digest("Want-Repr-Digest", "sha-256=:\(Self.base256):") == nil)
    }

    @Test func brokenMemberDoesNotTakeTheOthersAlong() {
        #expect(digest("Repr-Digest", "sha-512=:AAAA:, sha-256=:\(Self.base256):") == Self.digest256)
        #expect(digest("Repr-Digest", "sha-512=\(Self.base512), sha-256=:\(Self.base256):") == Self.digest256)
        #expect(digest("Digest", "SHA-512=\(Self.base256),SHA-256=\(Self.base256)") == Self.digest256)
    }

    /// The last value of a key applies: RFC 9651, section 4.2.2.
    @Test func lastOfAKeyCounts() {
        let (first, last) = ("sha-256=:\(Self.other256):", "sha-256=:\(Self.base256):")
        #expect(digest("Repr-Digest", first, last) == Self.digest256)
        #expect(digest("Repr-Digest", "\(last), sha-256=?1") == nil)
        #expect(digest("Repr-Digest", "\(last), sha-256=:AAAA:") == nil)
    }

    @Test(arguments: [
        "", " ", ",", "=", "sha-256", "sha-256=", "sha-256=:", "sha-256=::", "sha-256=:::", "sha-256=\(base256)",
        "sha-256=\"\(base256)\"", "sha-256=:\(base256)", "sha-256=\(base256):", "sha-256 =:\(base256):",
        "sha-256= :\(base256):", "SHA-256=:\(base256):", "sha256=:\(base256):", "sha-256=:\(base256):x",
        "sha-256=:\(base256)::", "sha-256=(:\(base256):)", "sha-384=:\(base512):", "sha-256=:\(base512):",
        "sha-512=:\(base256):", "sha-512=:\(base512.dropLast()):", "sha-256=: \(base256):", "sha-256=:\(base256)=:",
        "sha-256=:\(base256.dropLast(2)):", "sha-256=:\(base256.dropLast(2))==:", "sha-256=:=\(base256.dropFirst()):",
        "sha-256=:\(base256.dropLast())A:", "sha-256=:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=:",
        "sha-256=:\u{0}ngWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:",
        "sha-256=:ungWv48Bz+pBQUDeXa4\niI7ADYaOWF3qctBD/YfIAFa0=:",
        "sha-256=:éngWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0:",
        "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAF===:", "a=\"b, sha-256=:\(base256):",
        "a=\"\\\", sha-256=:\(base256):,", "a=\", sha-256=:\(base256):, \"",
    ])
    func anInvalidDigestIsNil(value: String) {
        #expect(digest("Repr-Digest", value) == nil)
    }

    @Test(arguments: [
        "", "SHA-256", "SHA-256=", "SHA-256=:\(base256):", "SHA-256 = \(base256)", "SHA-256=\"\(base256)\"",
        "SHA=\(base256)", "SHA-256=\(base512)", "SHA-512=\(base256)", "SHA-256=\(base256);q=1",
        "SHA-256=\(digest256.hexadecimal)", "id-sha-256=\(base256)", "SHA-256=\(base256)\u{0}",
    ])
    func anInvalidObsoleteDigestIsNil(value: String) {
        #expect(digest("Digest", value) == nil)
    }
}
