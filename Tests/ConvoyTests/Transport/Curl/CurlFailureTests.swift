// Tests the meanings of libcurl's error codes in all versions.
import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    @Suite struct CurlFailureTests {
        struct Row: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let failure: CurlFailure
            let code: RequestError.Code

            init(_ name: String, _ curlCode: Int32, _ code: RequestError.Code, _ change: (inout CurlFailure) -> Void) {
                var failure = CurlFailure(code: curlCode)
                change(&failure)
                (testDescription, self.failure, self.code) = (name, failure, code)
            }
        }

        static let beforeSending: [Row] = [
            .init("connect timeout", 28, .connectionFailed) { _ in },
            .init("connect timeout, https", 28, .connectionFailed) { $0.isHTTPS = true },
            .init("whole time over while connecting", 28, .timedOut) { $0.isTimeOver = true },
            .init("name of the host", 6, .connectionFailed) { _ in },
            .init("name of the proxy, to 8.15", 5, .proxyFailed) { $0.goesThroughProxy = true },
            .init("name of the proxy, 8.16", 6, .proxyFailed) { $0.goesThroughProxy = true },
            .init("refused", 7, .connectionFailed) { $0.systemError = ECONNREFUSED },
            .init("proxy refused", 7, .proxyFailed) { $0.goesThroughProxy = true },
            .init("connect timeout of a proxy", 28, .proxyFailed) { $0.goesThroughProxy = true },
            .init("connect timeout behind a tunnel", 28, .connectionFailed) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 200)
            },
            .init("407 for a tunnel", 56, .proxyFailed) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 407)
            },
            .init("garbage for a tunnel", 8, .proxyFailed) { ($0.isHTTPS, $0.goesThroughProxy) = (true, true) },
            .init("closed before a tunnel", 56, .proxyFailed) { ($0.isHTTPS, $0.goesThroughProxy) = (true, true) },
            .init("closed behind a tunnel", 56, .connectionLost) {
                ($0.isHTTPS, $0.goesThroughProxy, $0.proxyStatusCode) = (true, true, 200)
            },
            .init("reset in the handshake", 35, .connectionLost) { ($0.isHTTPS, $0.systemError) = (true, ECONNRESET) },
            .init("no certificate to trust", 60, .tlsFailed) { $0.isHTTPS = true },
            .init("key that cannot be opened, to 8.15", 58, .tlsFailed) { $0.isHTTPS = true },
            .init("key that cannot be opened, from 8.16", 43, .tlsFailed) { $0.isHTTPS = true },
            .init("TLS to a proxy", 60, .tlsFailed) { $0.goesThroughProxy = true },
            .init("URL", 3, .invalidRequest) { _ in },
            .init("memory", 27, .transportFailed) { $0.isHTTPS = true },
            .init("request's header, 8.6", 100, .invalidRequest) { $0.isRequestTooLarge = true },
            .init("a code nobody knows", 250, .transportFailed) { _ in },
        ]

        static let afterSending: [Row] = [
            .init("whole time over", 28, .timedOut) { ($0.stage, $0.isTimeOver) = (.waiting, true) },
            .init("closed before an answer", 52, .connectionLost) { $0.stage = .waiting },
            // The server may have received the first request.
            .init("kept connection dead, then refused", 7, .connectionLost) { $0.stage = .waiting },
            .init("kept connection dead, then silent", 28, .connectionLost) { $0.stage = .waiting },
            .init("body cut", 18, .connectionLost) { $0.stage = .receiving },
            .init("body reset", 56, .connectionLost) { ($0.stage, $0.systemError) = (.receiving, ECONNRESET) },
            .init("chunk malformed", 56, .badResponse) { $0.stage = .receiving },
            .init("two Locations, 8.17", 8, .badResponse) { $0.stage = .waiting },
            .init("folded first line, 7.84", 43, .badResponse) { $0.stage = .waiting },
            .init("large header, to 7.88", 27, .badResponse) { $0.stage = .waiting },
            .init("large header, from 8.6", 100, .badResponse) { $0.stage = .waiting },
            .init("request's header, to 8.5", 27, .invalidRequest) {
                ($0.stage, $0.isRequestTooLarge) = (.waiting, true)
            },
            .init("certificate wanted late", 35, .tlsFailed) { ($0.stage, $0.isHTTPS) = (.waiting, true) },
            .init("alert after the handshake", 56, .tlsFailed) {
                ($0.stage, $0.isHTTPS, $0.isRefusedByAlert) = (.waiting, true, true)
            },
            .init("stream ended", 92, .connectionLost) { ($0.stage, $0.isHTTPS) = (.receiving, true) },
            .init("a code nobody knows", 250, .transportFailed) { $0.stage = .receiving },
        ]

        @Test(arguments: beforeSending + afterSending)
        func eventHasOneMeaningInAllVersions(_ row: Row) {
            #expect(row.failure.meaning.code == row.code, "\(row.failure.meaning)")
        }

        @Test(arguments: [5, 6, 7, 28, 35, 60, 97] as [Int32], [false, true])
        func whatTheProxyMayHaveCausedNamesIt(code: Int32, isHTTPS: Bool) {
            var failure = CurlFailure(code: code, isHTTPS: isHTTPS, goesThroughProxy: true)
            #expect(failure.meaning.what.contains("proxy"))
            failure.goesThroughProxy = false
            if ![5, 97].contains(code) { #expect(!failure.meaning.what.contains("proxy")) }
            // Behind the tunnel, the server is the other end.
            (failure.goesThroughProxy, failure.proxyStatusCode) = (true, 200)
            if code == 60 { #expect(!failure.meaning.what.contains("proxy")) }
        }

        /// Before a request is sent, no error is a bad response.
        @Test func nothingIsABadResponseBeforeARequest() {
            for code in 1...120 as ClosedRange<Int32> {
                for isHTTPS in [false, true] {
                    let failure = CurlFailure(code: code, isHTTPS: isHTTPS)
                    #expect(![.badResponse, .deadlineExceeded].contains(failure.meaning.code), "\(code)")
                }
            }
        }
    }

    /// Tests that ``CurlLogLine`` reads the wording of each version, and nothing else.
    @Suite struct CurlLogLineTests {
        @Test(arguments: [
            // The versions are 7.88 and 8.0, then 8.1 to 8.18, then 8.19 and later.
            "recveived GOAWAY, error=0, last_stream=19", "received GOAWAY, error=0, last_stream=19",
            "received GOAWAY, error=2, last_stream=19\n",
        ])
        func lastStreamOfAGoAway(_ text: String) {
            #expect(logLine(text) == .goAway(lastStream: 19, isGraceful: text.contains("error=0")))
        }

        @Test(arguments: [
            // The versions are those before 8.2, then 8.2, then 8.3 and later.
            "Using Stream ID: 5 (easy handle 0x55d0)", "Using Stream ID: 5",
            "[HTTP/2] [5] OPENED stream for https://example.com/a",
        ])
        func numberOfAStream(_ text: String) { #expect(logLine(text) == .stream(5)) }

        @Test func refusalAndRetry() {
            #expect(logLine("REFUSED_STREAM, retrying a fresh connect") == .refused)
            #expect(logLine("Connection died, retrying a fresh connect (retry count: 1)") == .retry)
            #expect(logLine("Closing connection 0") == .closing)
            #expect(logLine("Connection cache is full, closing the oldest one") == .closesOldest)
        }

        @Test(arguments: [
            "", "U", "R", "[", "r", "[HTTP/2] [5] [:method: GET]", "[HTTP/2] [x] OPENED stream for https://a/",
            "received GOAWAY, error=0", "received GOAWAY, error=0, last_stream=", "rec", "Using Stream ID: ",
            "Using Stream ID: 99999999999999999999", "[HTTP/2] [", "Connection #0 to host a left intact",
            "received GOAWAY, error=0, last_stream=99999999999999999999",
        ])
        func otherLinesAreIgnored(_ text: String) { #expect(logLine(text) == nil) }

        private func logLine(_ text: String) -> CurlLogLine? { Array(text.utf8).withUnsafeBytes { CurlLogLine($0) } }
    }

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
