// Tests the parsing of libcurl's messages about TLS handshakes in the wording of each version.
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests that ``TLSSession`` reads the wording of each version, and nothing else.
    @Suite struct HandshakeTests {
        @Test(arguments: [
            // The first line is that of libcurl up to 7.87 with OpenSSL, with a line end. The second line is that of
            // libcurl from 8.1 on with OpenSSL, and the third line is that of libcurl with GnuTLS.
            ("SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384\n", "1.3", "TLS_AES_256_GCM_SHA384"),
            (
                "SSL connection using TLSv1.2 / ECDHE-RSA-AES128-GCM-SHA256 / X25519 / RSASSA-PSS", "1.2",
                "ECDHE-RSA-AES128-GCM-SHA256"
            ),
            ("SSL connection using TLS1.3 / ECDHE_RSA_AES_256_GCM_SHA384", "1.3", "ECDHE_RSA_AES_256_GCM_SHA384"),
            ("SSL connection using TLSv1", "1", ""),
        ])
        func versionAndCipher(_ text: String, version: String, cipher: String) {
            #expect(session(text)?.version == version)
            #expect(session(text)?.cipher == cipher)
        }

        @Test(arguments: [
            "", "S", "SSL connection using ", "SSL connection using TLS", "SSL connection using TLSv / A",
            "SSL connection using TLSvX / A", "SSL connection using (NONE) / (NONE)", "SSL certificate verify ok.",
            "SSL connection using TLSv1.3 / (NONE)", " SSL connection using TLSv1.3 / A", "Server certificate:",
        ])
        func otherTextsAreIgnored(_ text: String) { #expect(session(text) == nil) }

        private func session(_ text: String) -> TLSSession? { Array(text.utf8).withUnsafeBytes { TLSSession($0) } }
    }
#endif
