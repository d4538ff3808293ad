import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)

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

#endif
