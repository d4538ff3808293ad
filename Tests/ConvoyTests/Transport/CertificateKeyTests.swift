// Tests that pins are computed from the key that openssl finds, and that damaged certificates have none.
import Foundation
import Testing

@testable import Convoy

#if os(Linux)
    @Suite struct CertificateKeyTests {
        private func certificate(_ file: URL) throws -> Data {
            let text = try String(contentsOf: file, encoding: .utf8)
            return try #require(CertificateKey.certificates(inPEM: text)?.first)
        }

        @Test func pinIsThatOfOpenSSL() throws {
            let all = try Certificates.shared
            for identity in [all.authority, all.server, all.selfSigned, all.client] {
                #expect(CertificateKey.pin(of: try certificate(identity.certificate)) == identity.publicKeyPin)
            }
        }

        /// The key follows the issuer, so only the lengths show that bytes after the key are missing.
        @Test func certificateThatIsCutHasNoPin() throws {
            let whole = try certificate(Certificates.shared.server.certificate)
            for count in 0..<whole.count {
                #expect(CertificateKey.pin(of: whole.prefix(count)) == nil)
                // A slice whose first index is not 0.
                #expect(CertificateKey.pin(of: whole.dropFirst(whole.count - count)) == nil)
            }
        }

        @Test func damagedCertificatesTrapNothing() throws {
            let whole = try certificate(Certificates.shared.server.certificate)
            var random = SeededGenerator(seed: 14)
            for _ in 0..<2_000 {
                var damaged = whole
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    damaged[Int.random(in: 0..<damaged.count, using: &random)] = .random(in: 0...255, using: &random)
                }
                _ = CertificateKey.pin(of: damaged)
            }
        }

        @Test func lengthsBeyondTheEndAreRefused() {
            for bytes: [UInt8] in [
                [], [0x30], [0x30, 0x80], [0x30, 0x81], [0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF],
                [0x30, 0x88, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x30, 0x02, 0x30, 0x7F],
            ] {
                #expect(CertificateKey.pin(of: Data(bytes)) == nil)
            }
        }

        @Test func everyCertificateOfAFileIsFound() throws {
            let all = try Certificates.shared
            let texts = try [all.server.privateKey, all.server.certificate, all.authority.certificate].map {
                try String(contentsOf: $0, encoding: .utf8)
            }
            for text in [texts.joined(), texts.joined().replacingOccurrences(of: "\n", with: "\r\n")] {
                let certificates = try #require(CertificateKey.certificates(inPEM: text))
                let pins = certificates.map { CertificateKey.pin(of: $0) }
                #expect(pins == [all.server.publicKeyPin, all.authority.publicKeyPin])
            }
        }

        @Test(arguments: [
            "-----BEGIN CERTIFICATE-----\nAAAA\n", "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----",
            "-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        ])
        func fileThatIsCutHasNone(text: String) { #expect(CertificateKey.certificates(inPEM: text) == nil) }

        @Test func textWithoutCertificatesHasNone() { #expect(CertificateKey.certificates(inPEM: "none") == []) }
    }
#endif
