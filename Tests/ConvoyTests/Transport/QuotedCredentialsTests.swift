// Tests that messages of libcurl contain no user names and passwords.
import Foundation
import Testing

@testable import Convoy

@Suite struct QuotedCredentialsTests {
    private func shown(_ text: String, _ variable: String = "", url: String? = nil) -> String? {
        QuotedCredentials(of: url.flatMap { URL(string: $0) }) { $0 == "http_proxy" ? variable : nil }
            .removed(from: text)
    }

    @Test func textWithoutASecretStaysAsItIs() {
        let text = "Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server"
        #expect(shown(text) == text)
        #expect(shown(text, "http://bob:secret@proxy:3128") == text)
        #expect(shown(text, url: "http://bob:secret@127.0.0.1/") == text)
        #expect(shown("Could not resolve proxy: proxy", "http://proxy:3128") == "Could not resolve proxy: proxy")
    }

    @Test func quotedValueIsReplaced() {
        let value = "http://bob:secret@[::1"
        #expect(shown("Unsupported proxy syntax in '\(value)'", value) == "Unsupported proxy syntax in '<redacted>'")
        #expect(shown("bad 'http://bob:secret@host/x'") == "bad 'http://<redacted>@host/x'")
        #expect(shown("bad bob:secret@host") == "bad <redacted>@host")
    }

    /// The message quotes a part of the credentials, in another spelling or cut off.
    @Test(arguments: [
        ("Could not resolve proxy: bob", "http://bob:a/b@proxy"),
        ("Port number was not a decimal number: SECRET", "bob:secret"),
        ("Failed: se cret", "http://bob:se%20cret@proxy"),
        (
            "Unsupported 'http://bob:\(String(repeating: "s", count: 240))",
            "http://bob:\(String(repeating: "s", count: 300))@h"
        ),
    ])
    func textThatStillShowsAPartIsDropped(text: String, variable: String) {
        #expect(shown(text, variable) == nil)
    }

    #if canImport(CLibcurl)
        /// The values are malformed, so that some version of libcurl quotes them.
        private static let variables = [
            "http://robertine:pWtop/pWsecret@127.0.0.1:1", "http://robertine:pWtop@", "http://robertine:pWtop@:80",
            "http://robertine:pWtop@[::1", "http://robertine:pWtop@127.0.0.1:99999", "robertine:pWtop@127.0.0.1:x",
            "http://robertine:pWtop@127.0.0.1:1:2", "ftp://robertine:pWtop@127.0.0.1:1",
            "socks9://robertine:pWtop@127.0.0.1:1", "http://robertine:pW top@127.0.0.1:1",
            "http://robertine:pWtop@127.0.0.1 :1", "http:///robertine:pWtop@127.0.0.1", "robertine:pWtop",
            "http://robertine:pWtop%40127.0.0.1:1", "http://robertine:\(String(repeating: "pW", count: 200))@[::1",
            "http://robertine:pWtop@127.0.0.1:1\u{7f}", "http://robertine:pWtop@127.0.0.1?:1#x", "//robertine:pWtop@[",
        ]

        @Test func malformedProxyVariableIsNotShown() async {
            await #expect(processExitsWith: .success) {
                endProcessIfStuck()
                for name in ["https_proxy", "all_proxy"] { setenv(name, "http://127.0.0.1:1", 1) }
                for name in ["no_proxy", "NO_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { unsetenv(name) }
                for value in QuotedCredentialsTests.variables {
                    for name in ["http_proxy", "https_proxy"] { setenv(name, value, 1) }
                    for transport in [CurlTransport.shared, URLSessionTransport.shared] as [any Transport] {
                        let scheme = transport is CurlTransport ? ["http", "https"] : ["http"]
                        for scheme in scheme {
                            let request = Request<Data>.get("\(scheme)://127.0.0.1:2/").idleTimeout(.seconds(5))
                            let error = try await Sending(request, over: transport).error()
                            let shown = texts(showing: error, error.message)
                            for secret in ["robertine", "pW"] { #expect(!shown.contains(secret), "\(shown)") }
                        }
                    }
                }
            }
        }
    #endif
}
