import Foundation
import Testing

@testable import Convoy

struct HashFunctionTests {
    /// The digests of "abc" in FIPS 180-4 and RFC 1321.
    ///
    /// CryptoKit has no SHA-512/256.
    @Test(arguments: [
        (HashFunction.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            .sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
        (.sha512Truncated256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        (.md5, "900150983cd24fb0d6963f7d28e17f72"),
    ])
    func officialVectorsAreMet(function: HashFunction, hexadecimal: String) throws {
        if function == .sha512Truncated256, function.defect != nil { return }
        #expect(function.defect == nil)
        #expect(try function.digest(of: Data("abc".utf8)).hexadecimal == hexadecimal)
        var inPieces = try #require(function.make())
        for piece in ["", "a", "bc"] { Data(piece.utf8).withUnsafeBytes { inPieces.update($0) } }
        #expect(try inPieces.finish().hexadecimal == hexadecimal)
    }
}
