// Tests digests with known vectors, such as those of FIPS 180-2 and RFC 1321.
import Foundation
import Testing

@testable import Convoy

/// A hash function and its expected digests.
struct HashCase: Sendable, CustomTestStringConvertible {
    let function: HashFunction
    let digests: [(message: String, hexadecimal: String)]

    var testDescription: String { function.rawValue }

    static let bits448 = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
    static let bits896 =
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
        + "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"
    static let millionA = String(repeating: "a", count: 1_000_000)

    static let all = [
        HashCase(
            function: .sha256,
            digests: [
                ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
                ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
                (bits448, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
                (bits896, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"),
                (millionA, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
            ]),
        HashCase(
            function: .sha512,
            digests: [
                (
                    "",
                    "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
                        + "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
                ),
                (
                    "abc",
                    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                        + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
                ),
                (
                    bits448,
                    "204a8fc6dda82f0a0ced7beb8e08a41657c16ef468b228a8279be331a703c335"
                        + "96fd15c13b1b07f9aa1d3bea57789ca031ad85c7a71dd70354ec631238ca3445"
                ),
                (
                    bits896,
                    "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
                        + "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909"
                ),
                (
                    millionA,
                    "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
                        + "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b"
                ),
            ]),
        HashCase(
            function: .sha512Truncated256,
            digests: [
                ("", "c672b8d1ef56ed28ab87c3622c5114069bdd3ad7b8f9737498d0c01ecef0967a"),
                ("abc", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
                (bits896, "3928e184fb8690f840da3988121d31be65cb9d3ef83ee6146feac861e19b563a"),
                (millionA, "9a59a052930187a97038cae692f30708aa6491923ef5194394dc68d56c74fb21"),
            ]),
        HashCase(
            function: .md5,
            digests: [
                ("", "d41d8cd98f00b204e9800998ecf8427e"), ("a", "0cc175b9c0f1b6a831c399e269772661"),
                ("abc", "900150983cd24fb0d6963f7d28e17f72"), ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
                ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
                (
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                    "d174ab98d277d9f5a5611c2c9f419d9f"
                ),
                (String(repeating: "1234567890", count: 8), "57edf4a22be3c955ac49da2e2107b67a"),
                (bits448, "8215ef0796a20bcaaae116d3876c664a"),
                (millionA, "7707d6ae4e027c70eea2a935c2296f21"),
            ]),
    ]
}

struct HashFunctionTests {
    @Test(arguments: HashCase.all)
    func officialVectorsAreMet(hash: HashCase) throws {
        guard hash.function.defect == nil else { return }
        for (message, expected) in hash.digests {
            let digest = try hash.function.digest(of: Data(message.utf8))
            #expect(digest.hexadecimal == expected, "\(message.utf8.count) bytes")
        }
    }

    /// CryptoKit has no SHA-512/256.
    @Test(arguments: [HashFunction.md5, .sha256, .sha512])
    func theSystemHasTheFunctions(function: HashFunction) {
        #expect(function.defect == nil)
    }
}
