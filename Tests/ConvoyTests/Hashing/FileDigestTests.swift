import Convoy
import Foundation
import Testing

@Suite struct FileDigestTests {
    private static let digits256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    private static let digits512 =
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"

    private static func digest(_ algorithm: FileDigest.Algorithm, _ digits: String) -> FileDigest {
        algorithm == .sha256 ? .sha256(digits) : .sha512(digits)
    }

    @Test(arguments: [(FileDigest.Algorithm.sha256, digits256), (.sha512, digits512)])
    func digitsAreReadInEitherCase(algorithm: FileDigest.Algorithm, digits: String) {
        for text in [digits, digits.uppercased(), digits.prefix(20).uppercased() + digits.dropFirst(20)] {
            let digest = Self.digest(algorithm, text)
            #expect(digest.algorithm == algorithm)
            #expect(digest.defect == nil)
            #expect(digest.hexadecimal == digits)
            #expect(digest.description == "\(algorithm.rawValue):\(digits)")
        }
    }

    @Test func bytesAreTheDigestItself() {
        let abc = Data("abc".utf8)
        #expect(FileDigest.ofBytes(abc) == .sha256(Self.digits256))
        #expect(FileDigest.sha512(abc.sha512) == .sha512(Self.digits512))
        // A slice whose first index is not 0.
        #expect(FileDigest.sha256((Data([9]) + abc.sha256).dropFirst()) == .sha256(Self.digits256))
    }

    /// A text, and its number of digits if it has no other characters.
    @Test(
        arguments: [
            ("", 0), ("ba78", 4), (digits256 + "0", 65), (digits512, 128), ("g" + digits256.dropFirst(), nil),
            ("0x" + digits256, nil), (" \(digits256)\n", nil), ("\u{FF11}\u{0}é", nil), ("a\u{301}", nil),
        ] as [(String, Int?)])
    func theDefectNamesTheWrongAndTheRightLength(text: String, count: Int?) {
        let given = count.map { "\($0) were given" } ?? "the given text contains other characters"
        let defect = "a SHA-256 digest has 64 hexadecimal digits, and \(given)"
        let digest = FileDigest.sha256(text)
        #expect(digest.defect == defect)
        #expect(digest.hexadecimal.isEmpty)
        #expect(digest.description == "sha256:(\(defect))")
    }

    @Test(arguments: [0, 1, 31, 33, 64, 100_000])
    func anotherNumberOfBytesIsADefect(count: Int) {
        #expect(
            FileDigest.sha256(Data(count: count)).defect == "a SHA-256 digest has 32 bytes, not \(count)")
        #expect(FileDigest.sha512(Data(count: 32)).defect == "a SHA-512 digest has 64 bytes, not 32")
    }

    @Test(arguments: ["a", "g", "\u{0}", "é", "ab ", "\u{301}", "sha256:"])
    func longTextMakesAShortDefect(piece: String) throws {
        let digest = FileDigest.sha512(String(repeating: piece, count: 100_000 / piece.utf8.count))
        let defect = try #require(digest.defect)
        #expect(defect.utf8.count < 120)
        #expect(defect.isOneLine)
        #expect(FileDigest(String(repeating: piece, count: 100_000 / piece.utf8.count)) == nil)
    }

    @Test func anInvalidDigestEqualsNoValidDigest() {
        #expect(FileDigest.sha256("") != .sha256(Self.digits256))
        #expect(FileDigest.sha256("") != .sha512(""))
        #expect(FileDigest.sha256(String(repeating: "0", count: 64)) != .sha256(""))
        #expect(FileDigest.sha256(Self.digits256) != .sha256(String(Self.digits256.reversed())))
    }

    @Test(arguments: [
        ("sha256:" + digits256, FileDigest.Algorithm.sha256), ("sha-256=" + digits256, .sha256),
        ("SHA256:" + digits256.uppercased(), .sha256), ("SHA-256=" + digits256, .sha256), (digits256, .sha256),
        (digits256.uppercased(), .sha256), ("sha256=" + digits256, .sha256), ("sha-256:" + digits256, .sha256),
        ("sha512:" + digits512, .sha512), ("sha-512=" + digits512, .sha512), (digits512, .sha512),
        (digits512.uppercased(), .sha512),
    ])
    func listsWriteDigestsInManyWays(text: String, algorithm: FileDigest.Algorithm) {
        #expect(FileDigest(text) == Self.digest(algorithm, algorithm == .sha256 ? Self.digits256 : Self.digits512))
    }

    @Test(arguments: [
        "", ":", "=", "sha256", "sha256:", "sha-256=", ":" + digits256, "=" + digits256, "sha256:" + digits512,
        "sha512:" + digits256, "sha1:" + digits256, "sha-384=" + digits512, "md5:" + digits256, "sha256::" + digits256,
        "sha256:=" + digits256, "sha256: " + digits256, " sha256:" + digits256, digits256 + " ", digits256 + "\n",
        digits256 + "\u{0}", String(digits256.dropLast()), digits256 + "0", digits256 + digits256 + digits256,
        "g" + digits256.dropFirst(), "sha256:" + digits256.dropLast() + "é", "0x" + digits256, "sha256-" + digits256,
        "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:", "sha256:\u{301}" + digits256, "ｓha256:" + digits256,
        String(repeating: "\u{FF11}", count: 64), String(repeating: "é", count: 32),
    ])
    func anInvalidDigestIsNil(text: String) {
        #expect(FileDigest(text) == nil)
    }
}
